#include "actors/train/replica.h"

#include <algorithm>
#include <utility>

namespace troupe::actors {

Replica::Replica(const Setup& setup) : setup_(setup) {
  step_ = StepId(-1);
  on(&Replica::open);
  on(&Replica::fed);
  on(&Replica::asked);
  on(&Replica::assigned);
  on(&Replica::loss_measured);
  on(&Replica::norm_measured);
  on(&Replica::evaluation_requested);
  on(&Replica::evaluated);
  on(&Replica::decided);
  on(&Replica::snapshot_requested);
  on(&Replica::shard_updated);
  on(&Replica::stop_asked);
  on(&Replica::job_ended);
  on(&Replica::peer_went_down);
}

void Replica::connect_to(actor::Ref ledger, actor::Ref source, std::vector<actor::Ref> shards, actor::Ref evaluator, actor::Ref assigner) {
  ledger_ = std::move(ledger);
  source_ = std::move(source);
  shards_ = std::move(shards);
  evaluator_ = std::move(evaluator);
  assigner_ = std::move(assigner);
}

void Replica::started() {
  names_ = {.loss = name_for("loss"), .norms = name_for("norms"), .updates = name_for("updates"), .evaluation = name_for("evaluation"),
            .evaluator = name_for(evaluator_ ? evaluator_.name() : ""), .last_stage = name_for(setup_.last_stage), .shards = {}};
  for (const auto& shard : shards_) names_.shards.push_back(name_for(shard.name()));
  updates_.start(std::vector<bool>(shards_.size(), true));  // the weights of the start
  show_state();
}

void Replica::Roll::start(std::vector<bool> due) {
  due_ = std::move(due);
  missing_ = static_cast<std::size_t>(std::count(due_.begin(), due_.end(), true));
  end_ = due_.size();
}

void Replica::Roll::done(std::size_t shard) {
  if (due_.at(shard)) --missing_;
  due_[shard] = false;
}

std::size_t Replica::Roll::next() {
  while (!due_.at(end_ - 1)) --end_;
  return end_ - 1;
}

std::size_t Replica::shard_of(BlockIndex block) const {
  const auto found = std::find_if(setup_.blocks.begin(), setup_.blocks.end(), [block](const Held& held) { return held.block == block; });
  TROUPE_CHECK(found != setup_.blocks.end()) << "rank " << setup_.rank << " has no shard of block " << block;
  return static_cast<std::size_t>(found - setup_.blocks.begin());
}

void Replica::open(OpenStep message) {
  step_ = message.step;
  loss_due_ = !setup_.last_stage.empty();
  std::vector<bool> measured;
  for (const auto& held : setup_.blocks) measured.push_back(held.measured);
  norms_.start(std::move(measured));
  send(source_, message);
  show_state();
}

void Replica::fed(StepFed message) {
  message.replica = setup_.share.replica;
  if (!setup_.first) message.sample_hash = 0;
  send(ledger_, std::move(message));
}

void Replica::asked(MicroBatchAsked message) {
  message.replica = setup_.share.replica;
  send(assigner_, message);
}

void Replica::loss_measured(StepLossMeasured message) {
  message.replica = setup_.share.replica;
  send(ledger_, message);
  if (message.step == step_) loss_due_ = false;
  show_state();
}

void Replica::norm_measured(NormMeasured message) {
  // One that the ledger does not need may come when the next step is open.
  if (message.step == step_) norms_.done(shard_of(message.block));
  show_state();
  if (setup_.share.replica > 0 && !setup_.share.splits_optimizer()) return;
  message.replica = setup_.share.replica;
  send(ledger_, message);
}

void Replica::evaluation_requested(EvaluationRequested message) {
  evaluation_due_ = !setup_.last_stage.empty() && message.end - message.begin > setup_.share.replica;
  send(evaluator_, message);
  show_state();
}

void Replica::evaluated(EvaluationMeasured message) {
  evaluation_due_ = false;
  message.replica = setup_.share.replica;
  send(ledger_, std::move(message));
  show_state();
}

void Replica::decided(StepDecided message) {
  updates_.start(std::vector<bool>(shards_.size(), true));
  show_state();
  for (const auto& shard : shards_) send(shard, message);
}

void Replica::snapshot_requested(SnapshotRequested message) {
  for (const auto& shard : shards_) send(shard, message);
}

void Replica::shard_updated(ShardUpdated message) {
  updates_.done(shard_of(message.block));
  show_state();
  if (updates_.complete()) send(ledger_, ReplicaUpdated{message.step, setup_.rank, setup_.job});
}

// The ledger has heard of it. What carried it here has ended this rank's pauses (Link::before_an_end), so that the step can close.
void Replica::stop_asked(StopRequested) {}

void Replica::job_ended(JobEnded message) {
  ended_ = true;
  finish_job(message.result);
}

void Replica::peer_went_down(PeerWentDown message) {
  if (ended_) return;
  fail(message.cause);
}

void Replica::show_state() {
  Shown now{.step = step_};
  const auto wait_for = [&now](trace::Name what, trace::Name from) { now.what = what.id, now.from = from.id; };
  if (loss_due_) {
    wait_for(names_.loss, names_.last_stage);
  } else if (!norms_.complete()) {
    wait_for(names_.norms, names_.shards[norms_.next()]);
  } else if (!updates_.complete()) {
    wait_for(names_.updates, names_.shards[updates_.next()]);
  } else if (evaluation_due_) {
    wait_for(names_.evaluation, names_.evaluator);  // which says whether a loader or a stage is late
  }
  if (std::exchange(shown_, now) == now) return;
  if (now.what == 0) {
    set_state(trace::State::kIdle);
  } else {
    set_state(trace::State::kWaitingForInput, {now.what}, step_.value, {now.from});
  }
}

}  // namespace troupe::actors
