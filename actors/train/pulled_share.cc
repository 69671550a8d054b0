#include "actors/train/pulled_share.h"

#include <algorithm>

namespace troupe::actors {

std::optional<MicroBatchAsked> PulledShare::question(int unfinished) {
  if (complete_ || step_.value > last_step_) return std::nullopt;
  const bool open = step_ == open_;
  const int room = (open ? in_flight_ + 1 : 1) - unfinished - static_cast<int>(to_read_.size());
  if (asking_ ? !news_ : room <= 0) return std::nullopt;
  asking_ = true;
  news_ = false;
  MicroBatchAsked message{.step = step_, .next = static_cast<std::int32_t>(given_.size()), .open = open};
  // What the step before left with the stage for a moment is none of this one's.
  if (open) message.finished = std::max(0, handed_ - with_stage_);
  if (measured_ > 0) message.pace_ns = std::exchange(busy_ns_, 0) / std::exchange(measured_, 0);
  return message;
}

void PulledShare::assigned(const MicroBatchAssigned& answer) {
  TROUPE_CHECK(asking_ && answer.step == step_) << "a micro-batch of step " << answer.step << " was assigned, " << step_ << " is asked for";
  asking_ = false;
  if (answer.micro_batch >= 0) {
    to_read_.push_back({.step = step_, .micro_batch = MicroBatchId(static_cast<std::int32_t>(given_.size())), .slot = answer.micro_batch,
                        .last = answer.last});
    given_.push_back(answer.micro_batch);
  }
  complete_ = answer.last;
  marked_ = answer.last && answer.micro_batch >= 0;
}

void PulledShare::opened(StepId step) {
  open_ = step;
  handed_ = 0;
}

void PulledShare::handed_over(std::int64_t now_ns) {
  if (with_stage_++ == 0) busy_since_ns_ = now_ns;
  ++handed_;
}

void PulledShare::given_back(int with_stage, std::int64_t now_ns) {
  if (with_stage >= with_stage_) return;
  measured_ += with_stage_ - with_stage;
  busy_ns_ += now_ns - std::exchange(busy_since_ns_, now_ns);
  with_stage_ = with_stage;
  news_ = true;
}

std::vector<std::int32_t> PulledShare::tell() {
  TROUPE_CHECK(complete()) << "the share of step " << step_ << " is not complete";
  complete_ = false;
  ++step_.value;
  return std::exchange(given_, {});
}

}  // namespace troupe::actors
