// A replica's share of a step where replicas pull: what it asks for, what it was given, and how fast it computes that. Part of the source.
//
// It asks for one micro-batch more than its first stage computes at once, so that the device finds the next one there, and for one before
// the step is open. The next step is asked for once the end of the share before is told. Where a replica's stages are in several processes,
// the one with the first stage asks and all hear the answers, in one order: another may hear of the next step before it has told this one's end.
// Threads: the source's. Pure: times come in. Errors: an answer to no question: a bug.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "actors/protocol.h"
#include "actors/train/batch_feed.h"

namespace troupe::actors {

class PulledShare {
 public:
  // `in_flight`: micro-batches that the first stage computes at once. `asks`: that stage is in this process.
  PulledShare(StepId first_step, std::int64_t last_step, int in_flight, bool asks = true)
      : last_step_(last_step), in_flight_(in_flight), asks_(asks), step_(first_step) {}

  // What to say to the assigner now, if anything; counts as said.
  std::optional<MicroBatchAsked> question();
  void assigned(const MicroBatchAssigned& answer);
  // The next one to be read, if any; taken away by reading().
  const BatchPlace* to_read() const { return to_read_.empty() ? nullptr : &to_read_.front(); }
  void reading() { to_read_.pop_front(); }

  void opened(StepId step);
  void handed_over(std::int64_t now_ns);
  void computed(StepId step, std::int64_t now_ns);

  // The open step's share is complete: all of it, by index in the step, in this replica's order; and whether its last batch is marked.
  bool complete() const { return complete_ && step_ == open_ && to_read_.empty(); }
  bool marked() const { return marked_; }
  std::size_t given() const { return given_.size(); }
  // Goes on with the next step.
  std::vector<std::int32_t> tell();

 private:
  void take_answers();

  const std::int64_t last_step_;
  const int in_flight_;
  const bool asks_;
  StepId step_, open_;
  bool asking_ = false, news_ = false;   // news_: one was computed since the last question
  std::vector<std::int32_t> given_;      // of step_
  bool complete_ = false, marked_ = false;
  std::deque<MicroBatchAssigned> answers_;  // not taken yet: this step's share is complete
  std::deque<BatchPlace> to_read_;
  int handed_ = 0, computed_ = 0;        // of the open step
  std::int64_t busy_since_ns_ = 0;       // the device computes what comes next
  std::int64_t busy_ns_ = 0;             // for the `measured_` that were computed since the last question
  int measured_ = 0;
};

}  // namespace troupe::actors
