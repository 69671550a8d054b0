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
    : replica_(setup.replica), replicas_(setup.replicas), feed_(*this, with_samples(std::move(setup.feed))) {
  on(&Evaluator::requested);
  on(&Evaluator::batch_read);
  feed_.on_credit(&Evaluator::go_on);
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
  set_state(feed_.pending() ? trace::State::kRunning
            : next_ < batches_ ? trace::State::kWaitingForCredit : trace::State::kIdle,
            {}, asked_.step.value);
}

}  // namespace troupe::actors
