#include "actors/train/device_loop.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/device/shown.h"

namespace troupe::actors {
namespace {

// Weight of one operation in the measured rate: a few dozen operations settle it.
constexpr double kRateWeight = 0.05;

}  // namespace

DeviceLoop::DeviceLoop(device::Stream& stream, const Clock& clock, int max_operations)
    : stream_(stream), clock_(clock), max_operations_(max_operations) {
  on(&DeviceLoop::run);
  on(&DeviceLoop::open);
  on(&DeviceLoop::completed);
}

void DeviceLoop::run(RunTask message) {
  message.task->resume();  // to its first turn: nothing is enqueued yet
  place(*message.task);
  fill();
}

void DeviceLoop::open(OpenGate message) {
  task::TaskRun* waiting = message.gate->open();
  if (!waiting) return;
  std::erase(at_gates_, waiting);
  waiting->resume();
  place(static_cast<DeviceTask&>(*waiting));
  fill();
}

void DeviceLoop::place(DeviceTask& task) {
  if (task.done()) {
    send(task.owner(), TaskDone{task.token(), stream_.record()});
    return;
  }
  if (task.at_gate()) {  // OpenGate brings it back
    at_gates_.push_back(&task);
    return;
  }
  TROUPE_CHECK(task.turn() != nullptr) << "a task of " << task.owner().name() << " waits for something that is neither turn nor gate";
  ready_.push(task.turn()->key, &task);
}

bool DeviceLoop::room() const {
  const auto enqueued = static_cast<int>(enqueued_.size());
  return enqueued < max_operations_ && (enqueued < 2 || enqueued_ns_ < kRunAheadNs);
}

void DeviceLoop::fill() {
  while (room() && !ready_.empty()) {
    auto& task = static_cast<DeviceTask&>(*ready_.pop());
    const double cost = task.turn()->cost;
    const auto estimate_ns = static_cast<std::int64_t>(cost * ns_per_cost_);
    enqueued_.push_back(task.turn()->shown);
    ++started_;
    enqueued_ns_ += estimate_ns;
    device::begin_shown(stream_, task.turn()->shown);
    task.resume();
    stream_.notify([loop = self(), &clock = clock_, cost, estimate_ns, probe = stream_.probe()](device::StreamContext&) {
      device::end_shown(probe);
      loop.send(OperationCompleted{cost, estimate_ns, clock.now_ns()});
    });
    place(task);
  }
  show_state();
}

void DeviceLoop::show_state() {
  if (!enqueued_.empty()) {
    const trace::Operation& first = enqueued_.front();
    return set_state(trace::State::kRunning, name_of(first), first.micro_batch >= 0 ? first.micro_batch : first.step);
  }
  if (at_gates_.empty()) return set_state(trace::State::kIdle);
  const std::string* by = at_gates_.front()->gate()->opened_by;
  const auto [opener, fresh] = openers_.try_emplace(by);
  if (fresh && by != nullptr) opener->second = name_for(*by);
  set_state(trace::State::kWaitingForInput, {}, -1, opener->second);
}

// Ends with what the number behind it is.
trace::Name DeviceLoop::name_of(const trace::Operation& operation) {
  const char* const of = operation.micro_batch >= 0 ? " of micro-batch" : operation.step >= 0 ? " of step" : "";
  const auto [at, fresh] = operations_.try_emplace({operation.what.text(), operation.block, of});
  if (fresh) {
    const std::string what = operation.block >= 0 ? absl::StrCat(operation.what.text(), " block ", operation.block) : operation.what.text();
    at->second = name_for(absl::StrCat(what, of));
  }
  return at->second;
}

void DeviceLoop::completed(OperationCompleted message) {
  if (Status error = stream_.first_error(); !error.ok()) {
    fail(error);
    return;
  }
  enqueued_.pop_front();
  enqueued_ns_ -= message.estimate_ns;
  // Between two completions the device was busy if another operation was waiting for it; only then is the time the operation's.
  if (!enqueued_.empty() && last_completed_ns_ > 0 && message.cost > 0) {
    const double ns_per_cost = static_cast<double>(message.completed_ns - last_completed_ns_) / message.cost;
    ns_per_cost_ += kRateWeight * (std::clamp(ns_per_cost, 1e-6, 10.0) - ns_per_cost_);
  }
  last_completed_ns_ = message.completed_ns;
  fill();
}

}  // namespace troupe::actors
