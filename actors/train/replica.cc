#include "actors/train/replica.h"

namespace troupe::actors {

Replica::Replica(const Setup& setup) : setup_(setup) {
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
}

void Replica::norm_measured(NormMeasured message) {
  if (setup_.share.replica > 0 && !setup_.share.splits_optimizer()) return;
  message.replica = setup_.share.replica;
  send(ledger_, message);
}

void Replica::evaluated(EvaluationMeasured message) {
  message.replica = setup_.share.replica;
  send(ledger_, std::move(message));
}

void Replica::decided(StepDecided message) {
  for (const auto& shard : shards_) send(shard, message);
}

void Replica::snapshot_requested(SnapshotRequested message) {
  for (const auto& shard : shards_) send(shard, message);
}

void Replica::shard_updated(ShardUpdated message) {
  if (++updated_ < shards_.size()) return;
  updated_ = 0;
  send(ledger_, ReplicaUpdated{message.step, setup_.rank, setup_.job});
}

void Replica::job_ended(JobEnded message) {
  ended_ = true;
  finish_job(message.result);
}

void Replica::peer_went_down(PeerWentDown message) {
  if (ended_) return;
  fail(message.cause);
}

}  // namespace troupe::actors
