#include "actors/train/source.h"

namespace troupe::actors {
namespace {

BatchFeed::Setup with_samples(BatchFeed::Setup feed, const data::BatchLayout& layout, int replica) {
  feed.samples = [layout, replica](const BatchPlace& place, std::int64_t row) {
    return layout.sample(layout.cursor(place.step), place.micro_batch, replica, row);
  };
  return feed;
}

}  // namespace

Source::Source(Setup setup)
    : layout_(setup.layout),
      last_step_(setup.last_step),
      in_flight_(setup.in_flight),
      feed_(*this, with_samples(std::move(setup.feed), setup.layout, setup.replica)),
      next_read_{setup.first_step, MicroBatchId(0)},
      open_(StepId(setup.first_step.value - 1)) {
  on(&Source::open);
  on(&Source::batch_read);
  feed_.on_credit(&Source::read_ahead);
}

void Source::open(OpenStep message) {
  TROUPE_CHECK(message.step.value == open_.value + 1) << "step " << message.step << " opened after " << open_;
  TROUPE_CHECK(message.cursor == layout_.cursor(message.step)) << "the cursor " << message.cursor << " is not step " << message.step << "'s";
  open_ = message.step;
  waited_ns_ = 0;
  send_what_is_open();
}

void Source::read_ahead() {
  while (next_read_.step.value <= last_step_ && feed_.read(next_read_, self())) {
    if (++next_read_.micro_batch.value == layout_.micro_batches()) next_read_ = {StepId(next_read_.step.value + 1), MicroBatchId(0)};
  }
  send_what_is_open();
}

void Source::batch_read(BatchRead message) {
  if (!message.result.ok()) {
    fail(message.result);
    return;
  }
  feed_.read_done();
  send_what_is_open();
}

void Source::send_what_is_open() {
  while (feed_.has_read() && feed_.next().step <= open_) {
    if (waiting_since_ns_ >= 0) waited_ns_ += now_ns() - std::exchange(waiting_since_ns_, -1);
    const BatchPlace next = feed_.next();
    for (std::int64_t row = 0; row < layout_.micro_batch(); ++row) {
      data::SampleHash hash;
      hash.add(feed_.sample(next, row));
      sample_hash_ += hash.value();
    }
    if (next.micro_batch.value == layout_.micro_batches() - 1) {
      // before the batch itself: whatever the batch brings about reaches the ledger later
      send(ledger_, StepFed{next.step, waited_ns_, std::exchange(sample_hash_, 0)});
    }
    feed_.hand_over();
  }
  // A batch of an open step is still being read and the first stage has nothing to do in its place: that is the loader's delay.
  const bool late = feed_.pending() && feed_.next().step <= open_ && feed_.with_stage(0) < in_flight_;
  if (late && waiting_since_ns_ < 0) waiting_since_ns_ = now_ns();
  show_state();
}

void Source::show_state() {
  using trace::State;
  if (feed_.pending() && !feed_.has_read()) {
    set_state(State::kRunning, {}, next_read_.step.value);
  } else if (feed_.pending()) {
    set_state(State::kReady, {}, open_.value);
  } else {
    set_state(State::kWaitingForCredit, feed_.out(0).trace_name());
  }
}

}  // namespace troupe::actors
