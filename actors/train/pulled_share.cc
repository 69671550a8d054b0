#include "actors/train/pulled_share.h"

#include <utility>

namespace troupe::actors {

std::optional<MicroBatchAsked> PulledShare::question() {
  if (!asks_ || complete_ || step_.value > last_step_) return std::nullopt;
  const bool open = step_ == open_;
  const int finished = open ? computed_ : 0;
  const int room = (open ? in_flight_ + 1 : 1) - (static_cast<int>(given_.size()) - finished);
  if (asking_ ? !news_ : room <= 0) return std::nullopt;
  asking_ = true;
  news_ = false;
  MicroBatchAsked message{.step = step_, .next = static_cast<std::int32_t>(given_.size()), .finished = finished, .open = open};
  if (measured_ > 0) message.pace_ns = std::exchange(busy_ns_, 0) / std::exchange(measured_, 0);
  return message;
}

void PulledShare::assigned(const MicroBatchAssigned& answer) {
  if (asks_) {
    TROUPE_CHECK(asking_ && answer.step == step_) << "a micro-batch of step " << answer.step << " was assigned, " << step_ << " is asked for";
  }
  asking_ = false;
  answers_.push_back(answer);
  take_answers();
}

void PulledShare::take_answers() {
  for (; !complete_ && !answers_.empty(); answers_.pop_front()) {
    const MicroBatchAssigned& answer = answers_.front();
    TROUPE_CHECK(answer.step == step_) << "a micro-batch of step " << answer.step << " was assigned in step " << step_;
    if (answer.micro_batch >= 0) {
      to_read_.push_back({.step = step_, .micro_batch = MicroBatchId(static_cast<std::int32_t>(given_.size())), .slot = answer.micro_batch,
                          .last = answer.last});
      given_.push_back(answer.micro_batch);
    }
    complete_ = answer.last;
    marked_ = answer.last && answer.micro_batch >= 0;
  }
}

void PulledShare::opened(StepId step) {
  open_ = step;
  handed_ = computed_ = 0;
  news_ = true;
}

void PulledShare::handed_over(std::int64_t now_ns) {
  if (handed_++ == computed_) busy_since_ns_ = now_ns;
}

void PulledShare::computed(StepId step, std::int64_t now_ns) {
  TROUPE_CHECK(step == open_ && computed_ < handed_)
      << "one more of step " << step << " is computed, " << computed_ << " of " << handed_ << " were";
  ++computed_;
  ++measured_;
  busy_ns_ += now_ns - std::exchange(busy_since_ns_, now_ns);
  news_ = true;
}

std::vector<std::int32_t> PulledShare::tell() {
  TROUPE_CHECK(complete()) << "the share of step " << step_ << " is not complete";
  complete_ = false;
  ++step_.value;
  auto told = std::exchange(given_, {});
  take_answers();
  return told;
}

}  // namespace troupe::actors
