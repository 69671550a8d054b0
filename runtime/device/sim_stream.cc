#include "runtime/device/sim_stream.h"

namespace troupe::device {

SimStream::SimStream(std::string name, const Clock& clock, Cost cost, Buffer scratch)
    : name_(std::move(name)), clock_(clock), cost_(std::move(cost)), scratch_(std::move(scratch)) {}

void SimStream::begin_head() {
  if (!queue_.empty()) head_ends_ns_ = clock_.now_ns() + queue_.front().cost_ns;
}

void SimStream::push(Entry entry) {
  TROUPE_CHECK(queue_.size() < kCapacity)
      << "stream '" << name_ << "' has " << queue_.size() << " entries pending";
  queue_.push_back(std::move(entry));
  if (queue_.size() == 1) begin_head();
}

void SimStream::enqueue(Work work) {
  const std::int64_t cost_ns = cost_ ? cost_(entries_) : 0;
  TROUPE_CHECK(cost_ns >= 0) << "stream '" << name_ << "': entry " << entries_ << " costs " << cost_ns
                             << " ns";
  ++entries_;
  push(Entry{.work = std::move(work), .wait_for = {}, .cost_ns = cost_ns});
}

Event SimStream::record() {
  push(Entry{.work = {}, .wait_for = {}, .completes = ++recorded_, .always = true});
  return Event(progress_, recorded_);
}

void SimStream::wait(const Event& event) {
  TROUPE_CHECK(event.recorded()) << "stream '" << name_ << "' waits for an event that was never recorded";
  push(Entry{.work = {}, .wait_for = event, .always = true});
}

void SimStream::notify(Work then) { push(Entry{.work = std::move(then), .wait_for = {}, .always = true}); }

std::int64_t SimStream::ready_at_ns() const {
  if (queue_.empty()) return kNever;
  const Entry& head = queue_.front();
  if (head.wait_for.recorded() && !head.wait_for.done())
    return kNever;  // another stream's step will change that
  return head_ends_ns_;
}

void SimStream::step() {
  TROUPE_CHECK(ready_at_ns() <= clock_.now_ns())
      << "stream '" << name_ << "' stepped before its head is ready";
  Entry entry = std::move(queue_.front());
  queue_.pop_front();
  begin_head();
  if (entry.work && (error_.ok() || entry.always)) {
    StreamContext context{team_, scratch_.data(), scratch_.bytes()};
    Status status = entry.work(context);
    if (error_.ok() && !status.ok()) error_ = std::move(status);
  }
  if (entry.completes != 0) progress_->reach(entry.completes);
}

}  // namespace troupe::device
