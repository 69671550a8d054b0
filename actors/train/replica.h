// What the ledger speaks to in each process of a replica: passes its decisions on to the actors here, and what they measured to the ledger.
//
// Acts:  OpenStep -> source;  EvaluationRequested -> evaluator;  StepDecided, SnapshotRequested -> every shard;  ShardUpdated of every
//        shard -> ReplicaUpdated;  StepFed, StepLossMeasured, NormMeasured, EvaluationMeasured -> the ledger, with this replica's number;  norms from replica 0 alone where all hold the
//        same sums.  MicroBatchAsked -> the assigner, its answer -> source.  JobEnded -> this process's part of the job ends.
// Says: which of the actors here has not yet done what the ledger waits for; idle when the ledger has all, or has asked for nothing.
// So the ledger's mailbox grows with the processes, not with their shards.
// Fails: when a process of the job is gone before the job has ended, with its cause.
// Threads: an actor's; connect_to before the System starts. Owns: nothing.
#pragma once

#include <string>
#include <vector>

#include "actors/plan/shard_memory.h"
#include "actors/protocol.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class Replica : public actor::Actor {
 public:
  struct Held {
    BlockIndex block;
    bool measured = true;      // its norm is; that of a copy is not
  };
  struct Setup {
    plan::ShardShare share;    // of the replica
    Rank rank;
    bool first = true;         // the first stage is here: the samples are counted here
    std::uint64_t job = 0;     // plan::fingerprint
    std::string last_stage{};  // the actor that measures losses; empty where it is in another process
    std::vector<Held> blocks{};  // of the shards
  };
  explicit Replica(const Setup& setup);
  // `evaluator` only where there is evaluation, `assigner` only where replicas pull.
  void connect_to(actor::Ref ledger, actor::Ref source, std::vector<actor::Ref> shards, actor::Ref evaluator = {}, actor::Ref assigner = {});

 private:
  // What the shards are asked for in a step, and who has done it.
  class Roll {
   public:
    void start(std::vector<bool> due);
    void done(std::size_t shard);
    bool complete() const { return missing_ == 0; }
    // The last that has not: what a backward pass brings about comes in that order. A bug if it is complete.
    std::size_t next();

   private:
    std::vector<bool> due_;
    std::size_t missing_ = 0, end_ = 0;
  };
  void started() override;
  void open(OpenStep message);
  void fed(StepFed message);
  void asked(MicroBatchAsked message);
  void assigned(MicroBatchAssigned message) { send(source_, message); }
  void loss_measured(StepLossMeasured message);
  void norm_measured(NormMeasured message);
  void evaluation_requested(EvaluationRequested message);
  void evaluated(EvaluationMeasured message);
  void decided(StepDecided message);
  void snapshot_requested(SnapshotRequested message);
  void shard_updated(ShardUpdated message);
  void stop_asked(StopRequested message);
  void job_ended(JobEnded message);
  void peer_went_down(PeerWentDown message);
  std::size_t shard_of(BlockIndex block) const;
  void show_state();

  const Setup setup_;
  actor::Ref ledger_, source_, evaluator_, assigner_;
  std::vector<actor::Ref> shards_;
  Roll norms_, updates_;
  StepId step_;
  bool loss_due_ = false, evaluation_due_ = false;
  struct {
    trace::Name loss, norms, updates, evaluation, evaluator, last_stage;
    std::vector<trace::Name> shards;
  } names_;
  struct Shown {
    std::uint32_t what = 0, from = 0;  // names; 0: idle
    StepId step{-1};
    bool operator==(const Shown&) const = default;
  } shown_;
  bool ended_ = false;
};

}  // namespace troupe::actors
