#include "actors/train/source.h"

namespace troupe::actors {
namespace {

BatchFeed::Setup with_samples(BatchFeed::Setup feed, const data::BatchLayout& layout) {
  feed.samples = [layout](const BatchPlace& place, std::int64_t row) { return layout.sample(layout.cursor(place.step), place.slot, row); };
  return feed;
}

}  // namespace

Source::Source(Setup setup)
    : layout_(setup.layout),
      replica_(setup.replica),
      last_step_(setup.last_step),
      in_flight_(setup.in_flight),
      asks_(setup.asks),
      assigner_(std::move(setup.assigner)),
      feed_(*this, with_samples(std::move(setup.feed), setup.layout)),
      next_read_{.step = setup.first_step, .micro_batch = MicroBatchId(0)},
      open_(StepId(setup.first_step.value - 1)) {
  if (setup.pulls) share_.emplace(setup.first_step, setup.last_step, setup.in_flight, setup.asks);
  on(&Source::open);
  on(&Source::batch_read);
  on(&Source::assigned);
  on(&Source::computed);
  feed_.on_credit(&Source::read_ahead);
}

void Source::connect_to(actor::Ref replica, std::vector<actor::Ref> stages) {
  agent_ = std::move(replica);
  stages_ = std::move(stages);
}

void Source::started() {
  names_ = {.read = name_for("read"), .assignment = name_for("assignment"), .assigner = name_for(assigner_)};
  read_ahead();
}

void Source::open(OpenStep message) {
  TROUPE_CHECK(message.step.value == open_.value + 1) << "step " << message.step << " opened after " << open_;
  TROUPE_CHECK(message.cursor == layout_.cursor(message.step)) << "the cursor " << message.cursor << " is not step " << message.step << "'s";
  open_ = message.step;
  waited_ns_ = 0;
  if (share_) share_->opened(open_);
  read_ahead();
}

void Source::assigned(MicroBatchAssigned message) {
  TROUPE_CHECK(share_.has_value()) << "a micro-batch was assigned where they go by index";
  share_->assigned(message);
  read_ahead();
}

void Source::computed(MicroBatchComputed message) {
  share_->computed(message.step, now_ns());
  read_ahead();
}

void Source::read_ahead() {
  if (share_) {
    read_what_is_assigned();
    send_what_is_open();
    end_share();
    if (const auto question = share_->question()) send(agent_, *question);
    return;
  }
  while (next_read_.step.value <= last_step_) {
    next_read_.slot = layout_.slot(next_read_.micro_batch, replica_);
    next_read_.last = next_read_.micro_batch.value + 1 == layout_.micro_batches();
    if (!feed_.read(next_read_, self())) break;
    ++next_read_.micro_batch.value;
    if (next_read_.last) next_read_ = {.step = StepId(next_read_.step.value + 1), .micro_batch = MicroBatchId(0)};
  }
  send_what_is_open();
}

void Source::read_what_is_assigned() {
  while (const BatchPlace* place = share_->to_read()) {
    if (!feed_.read(*place, self())) return;
    share_->reading();
  }
}

// None of the step's batches that went to the stages was marked as the last, and no more come.
void Source::end_share() {
  if (!share_->complete() || share_->marked() || feed_.pending()) return;
  const StepId step = open_;
  const auto count = static_cast<std::int32_t>(share_->given());
  tell_fed(step);
  for (const auto& stage : stages_) send(stage, ShareEnded{step, count});
}

void Source::tell_fed(StepId step) {
  StepFed fed{.step = step, .waited_ns = waited_ns_, .sample_hash = std::exchange(sample_hash_, 0)};
  if (share_) {
    auto pulled = share_->tell();
    if (asks_) fed.pulled = std::move(pulled);
  }
  send(agent_, std::move(fed));
}

void Source::batch_read(BatchRead message) {
  if (!message.result.ok()) {
    fail(message.result);
    return;
  }
  feed_.read_done();
  read_ahead();
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
    if (next.last) tell_fed(next.step);  // before the batch itself: whatever the batch brings about reaches the ledger later
    feed_.hand_over();
    if (share_) share_->handed_over(now_ns());
  }
  // A batch of an open step is still being read and the first stage has nothing to do in its place: that is the loader's delay.
  const bool late = feed_.pending() && feed_.next().step <= open_ && feed_.with_stage(0) < in_flight_;
  if (late && waiting_since_ns_ < 0) waiting_since_ns_ = now_ns();
  show_state();
}

void Source::show_state() {
  using trace::State;
  if (feed_.pending() && !feed_.has_read()) {
    set_state(State::kRunning, names_.read, feed_.next().step.value);
  } else if (feed_.pending() || (!share_ && next_read_.step.value > last_step_)) {
    set_state(State::kIdle);  // until a step is opened
  } else if (share_) {
    set_state(State::kWaitingForInput, names_.assignment, open_.value, names_.assigner);
  } else {
    set_state(State::kWaitingForCredit, feed_.without_credit());
  }
}

}  // namespace troupe::actors
