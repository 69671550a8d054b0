#include "actors/train/evaluator.h"

namespace troupe::actors {
namespace {

BatchFeed::Setup with_samples(BatchFeed::Setup feed) {
  feed.samples = [batch = feed.geometry.batch](const BatchPlace& place, std::int64_t row) {
    return SampleId(place.micro_batch.value * batch + row);
  };
  return feed;
}

}  // namespace

Evaluator::Evaluator(BatchFeed::Setup feed, int batches) : batches_(batches), feed_(*this, with_samples(std::move(feed))), next_(batches) {
  on(&Evaluator::requested);
  on(&Evaluator::batch_read);
  feed_.on_credit(&Evaluator::go_on);
}

void Evaluator::requested(EvaluationRequested message) {
  TROUPE_CHECK(next_ == batches_ && !feed_.pending()) << "the evaluation of step " << step_ << " is still going on";
  step_ = message.step;
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
  while (next_ < batches_ && feed_.read({step_, MicroBatchId(next_)}, self())) ++next_;
  set_state(feed_.pending() ? trace::State::kRunning
            : next_ < batches_ ? trace::State::kWaitingForCredit : trace::State::kIdle,
            {}, step_.value);
}

}  // namespace troupe::actors
