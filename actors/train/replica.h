// What the ledger speaks to in each process of a replica: passes its decisions on to the actors here, and what they measured to the ledger.
//
// Acts:  OpenStep -> source;  EvaluationRequested -> evaluator;  StepDecided, SnapshotRequested -> every shard;  ShardUpdated of every
//        shard -> ReplicaUpdated;  StepFed, StepLossMeasured, NormMeasured, EvaluationMeasured -> the ledger, with this replica's number;  norms from replica 0 alone where all hold the
//        same sums.  MicroBatchAsked -> the assigner, its answer -> source.  JobEnded -> this process's part of the job ends.
// So the ledger's mailbox grows with the processes, not with their shards.
// Fails: when a process of the job is gone before the job has ended, with its cause.
// Threads: an actor's; connect_to before the System starts. Owns: nothing.
#pragma once

#include <vector>

#include "actors/plan/shard_memory.h"
#include "actors/protocol.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class Replica : public actor::Actor {
 public:
  struct Setup {
    plan::ShardShare share;    // of the replica
    Rank rank;
    bool first = true;         // the first stage is here: the samples are counted here
    std::uint64_t job = 0;     // plan::fingerprint
  };
  explicit Replica(const Setup& setup);
  // `evaluator` only where there is evaluation, `assigner` only where replicas pull.
  void connect_to(actor::Ref ledger, actor::Ref source, std::vector<actor::Ref> shards, actor::Ref evaluator = {}, actor::Ref assigner = {});

 private:
  void open(OpenStep message) { send(source_, message); }
  void fed(StepFed message);
  void asked(MicroBatchAsked message);
  void assigned(MicroBatchAssigned message) { send(source_, message); }
  void loss_measured(StepLossMeasured message);
  void norm_measured(NormMeasured message);
  void evaluation_requested(EvaluationRequested message) { send(evaluator_, message); }
  void evaluated(EvaluationMeasured message);
  void decided(StepDecided message);
  void snapshot_requested(SnapshotRequested message);
  void shard_updated(ShardUpdated message);
  void job_ended(JobEnded message);
  void peer_went_down(PeerWentDown message);

  const Setup setup_;
  actor::Ref ledger_, source_, evaluator_, assigner_;
  std::vector<actor::Ref> shards_;
  std::size_t updated_ = 0;
  bool ended_ = false;
};

}  // namespace troupe::actors
