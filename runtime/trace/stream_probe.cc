#include "runtime/trace/stream_probe.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"

namespace troupe::trace {
namespace {

std::uint64_t packed(std::int32_t block, std::int32_t micro_batch) {
  return std::uint64_t{static_cast<std::uint32_t>(block)} << 32 | static_cast<std::uint32_t>(micro_batch);
}

}  // namespace

StreamProbe::StreamProbe(std::string name, Ticks ticks) : name_(std::move(name)), ticks_(ticks) {
  older_ = newer_ = {.at_ns = ticks_.now_ns(), .busy_ns = 0};
}

void StreamProbe::begin(const Operation& operation) {
  if constexpr (!kProbes) return;
  if (what_.load(std::memory_order_relaxed) != nullptr) end();
  const Changing changing(*this);
  what_.store(operation.what.text(), std::memory_order_relaxed);
  numbers_.store(packed(operation.block, operation.micro_batch), std::memory_order_relaxed);
  step_.store(operation.step, std::memory_order_relaxed);
  busy_before_.store(busy_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  begun_at_.store(ticks_.now(), std::memory_order_relaxed);
  begun_.store(begun_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void StreamProbe::end() {
  const char* const what = what_.load(std::memory_order_relaxed);
  if (what == nullptr) return;
  const std::uint64_t now = ticks_.now(), at = ended_.load(std::memory_order_relaxed);
  const std::uint64_t begun_at = begun_at_.load(std::memory_order_relaxed), work_since = work_since_.load(std::memory_order_relaxed);
  // The piece of work that calls this is of the operation too.
  const std::uint64_t in_this = work_since == 0 ? 0 : now - std::max(work_since, begun_at);
  const std::uint64_t busy = busy_.load(std::memory_order_relaxed) - busy_before_.load(std::memory_order_relaxed) + in_this;
  writing_.store(at + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  auto& record = ring_[at % kOperations];
  record.what.store(what, std::memory_order_relaxed);
  record.numbers.store(numbers_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  record.step.store(step_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  record.begin.store(begun_at, std::memory_order_relaxed);
  record.end.store(now, std::memory_order_relaxed);
  record.busy.store(std::min(busy, now - begun_at), std::memory_order_relaxed);
  ended_.store(at + 1, std::memory_order_release);
  count_in_step(step_.load(std::memory_order_relaxed), std::min(busy, now - begun_at));
  change<const char*>(what_, nullptr);
}

void StreamProbe::count_in_step(std::int64_t step, std::uint64_t busy) {
  if (step < 0) return;
  auto& slot = steps_[static_cast<std::uint64_t>(step) % kSteps];
  if (slot.step.load(std::memory_order_relaxed) != step) {
    slot.busy.store(0, std::memory_order_relaxed);
    slot.step.store(step, std::memory_order_relaxed);
  }
  bump(slot.busy, busy);
  if (step <= newest_step_) return;
  newest_finished_.store(newest_step_, std::memory_order_release);
  newest_step_ = step;
}

template <class Read>
void StreamProbe::read_whole(const Read& read) const {
  while (true) {
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    read();
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 == 0 && version == version_.load(std::memory_order_relaxed)) return;
    std::this_thread::yield();  // the writer may have lost its core
  }
}

std::int64_t StreamProbe::busy_ns() const {
  std::uint64_t busy = 0, since = 0;
  read_whole([&] {
    busy = busy_.load(std::memory_order_relaxed);
    since = work_since_.load(std::memory_order_relaxed);
  });
  const std::uint64_t now = ticks_.now();
  return ticks_.ns(busy + (since == 0 || now < since ? 0 : now - since));
}

OperationRow StreamProbe::row_of(const char* what, std::uint64_t numbers, std::int64_t step) const {
  OperationRow row{.name = what, .step = step, .micro_batch = static_cast<std::int32_t>(static_cast<std::uint32_t>(numbers))};
  const auto block = static_cast<std::int32_t>(static_cast<std::uint32_t>(numbers >> 32));
  if (block >= 0) absl::StrAppend(&row.name, " block ", block);
  return row;
}

bool StreamProbe::running(OperationRow& row) const {
  const char* what = nullptr;
  std::uint64_t numbers = 0, begun_at = 0;
  std::int64_t step = -1;
  read_whole([&] {
    what = what_.load(std::memory_order_relaxed);
    numbers = numbers_.load(std::memory_order_relaxed);
    step = step_.load(std::memory_order_relaxed);
    begun_at = begun_at_.load(std::memory_order_relaxed);
  });
  if (what == nullptr) return false;
  row = row_of(what, numbers, step);
  row.begin_ns = ticks_.ns(begun_at);
  row.end_ns = std::max(row.begin_ns, ticks_.now_ns());
  return true;
}

StreamProbe::Operations StreamProbe::operations_since(std::uint64_t since, std::int64_t after_ns) const {
  struct Raw {
    const char* what;
    std::uint64_t numbers, begin, end, busy;
    std::int64_t step;
  };
  const std::uint64_t end = ended_.load(std::memory_order_acquire);
  const std::uint64_t begin = std::min(end, std::max(since, end > kOperations ? end - kOperations : 0));
  std::vector<Raw> raw;  // the newest first
  for (std::uint64_t i = end; i > begin; --i) {
    const auto& record = ring_[(i - 1) % kOperations];
    raw.push_back({.what = record.what.load(std::memory_order_relaxed), .numbers = record.numbers.load(std::memory_order_relaxed),
                   .begin = record.begin.load(std::memory_order_relaxed), .end = record.end.load(std::memory_order_relaxed),
                   .busy = record.busy.load(std::memory_order_relaxed), .step = record.step.load(std::memory_order_relaxed)});
    if (ticks_.ns(raw.back().end) <= after_ns) {
      raw.pop_back();
      break;
    }
  }
  // What the stream has begun to overwrite meanwhile may be torn: leave it out.
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t writing = writing_.load(std::memory_order_relaxed), intact = writing > kOperations ? writing - kOperations : 0;
  while (!raw.empty() && end - raw.size() < intact) raw.pop_back();

  Operations result;
  result.first = end - raw.size();
  const std::uint64_t kept = std::max(begin, std::min(intact, end));
  result.lost = kept > since ? static_cast<std::int64_t>(kept - since) : 0;
  for (auto one = raw.rbegin(); one != raw.rend(); ++one) {
    result.rows.push_back(row_of(one->what, one->numbers, one->step));
    auto& row = result.rows.back();
    row.begin_ns = ticks_.ns(one->begin);
    row.end_ns = ticks_.ns(one->end);
    row.waited_ns = std::max<std::int64_t>(0, row.end_ns - row.begin_ns - ticks_.ns(one->busy));
  }
  return result;
}

std::int64_t StreamProbe::median_step_busy_ns() const {
  const std::int64_t newest = newest_finished_.load(std::memory_order_acquire);
  std::vector<std::uint64_t> spent;
  for (const auto& slot : steps_) {
    const std::int64_t step = slot.step.load(std::memory_order_relaxed);
    const std::uint64_t busy = slot.busy.load(std::memory_order_relaxed);
    // its slot is not about to be taken by the next one
    if (step >= 0 && step <= newest && step + static_cast<std::int64_t>(kSteps) > newest + 2) spent.push_back(busy);
  }
  if (spent.empty()) return 0;
  const auto middle = spent.begin() + static_cast<std::ptrdiff_t>(spent.size() / 2);
  std::nth_element(spent.begin(), middle, spent.end());
  return ticks_.ns(*middle);
}

StreamRow StreamProbe::row() const {
  StreamRow row{.name = name_};
  const auto begun = static_cast<std::int64_t>(begun_.load(std::memory_order_acquire));
  row.queued = std::max<std::int64_t>(0, static_cast<std::int64_t>(queued_.load(std::memory_order_relaxed)) - begun);
  row.done = static_cast<std::int64_t>(ended_.load(std::memory_order_acquire));
  OperationRow now;
  if (running(now)) {
    row.running = now.name;
    row.running_ns = now.end_ns - now.begin_ns;
  }
  row.step_busy_ns = median_step_busy_ns();
  const std::lock_guard lock(looks_mutex_);
  const Look look{.at_ns = ticks_.now_ns(), .busy_ns = busy_ns()};
  row.busy_ns = look.busy_ns;
  if (look.at_ns - newer_.at_ns >= kLookNs) older_ = std::exchange(newer_, look);
  const auto over = static_cast<double>(look.at_ns - older_.at_ns);
  row.busy_ratio = over > 0 ? std::clamp(static_cast<double>(look.busy_ns - older_.busy_ns) / over, 0.0, 1.0) : 0.0;
  return row;
}

}  // namespace troupe::trace
