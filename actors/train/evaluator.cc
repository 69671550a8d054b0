#include "actors/train/evaluator.h"

namespace troupe::actors {
namespace {

BatchFeed::Setup with_samples(BatchFeed::Setup feed) {
  feed.samples = [batch = feed.geometry.batch](const BatchPlace& place, std::int64_t row) {
    return SampleId(place.slot * batch + row);
  };
  return feed;
}

}  // namespace

Evaluator::Evaluator(Setup setup)
    : replica_(setup.replica), replicas_(setup.replicas), stages_(std::move(setup.stages)), feed_(*this, with_samples(std::move(setup.feed))) {
  on(&Evaluator::requested);
  on(&Evaluator::batch_read);
  feed_.on_credit(&Evaluator::go_on);
}

void Evaluator::started() {
  names_ = {.read = name_for("read"), .evaluation = name_for("evaluation"), .stages = {}};
  for (const auto& stage : stages_) names_.stages.push_back(name_for(stage));
}

void Evaluator::requested(EvaluationRequested message) {
  TROUPE_CHECK(next_ == batches_ && !feed_.pending()) << "the evaluation of step " << asked_.step << " is still going on";
  asked_ = message;
  batches_ = (message.end - message.begin - replica_ + replicas_ - 1) / replicas_;
  next_ = 0;
  go_on();
}

void Evaluator::batch_read(BatchRead message) {
  if (!message.result.ok()) {
    fail(message.result);
    return;
  }
  feed_.read_done();
  while (feed_.has_read()) feed_.hand_over();
  go_on();
}

void Evaluator::go_on() {
  const auto place = [this] {
    return BatchPlace{.step = asked_.step, .micro_batch = MicroBatchId(next_), .slot = std::int64_t{asked_.begin} + next_ * replicas_ + replica_,
                      .last = next_ + 1 == batches_};
  };
  while (next_ < batches_ && feed_.read(place(), self())) ++next_;
  show_state();
}

void Evaluator::show_state() {
  using trace::State;
  if (feed_.pending()) return set_state(State::kRunning, names_.read, asked_.step.value);
  if (next_ < batches_) return set_state(State::kWaitingForCredit, feed_.without_credit());
  for (int stage = static_cast<int>(names_.stages.size()); stage-- > 0;) {
    if (feed_.with_stage(stage) > 0) return set_state(State::kWaitingForInput, names_.evaluation, asked_.step.value, names_.stages[static_cast<std::size_t>(stage)]);
  }
  set_state(State::kIdle);
}

}  // namespace troupe::actors
