// Owns one block's slice: fp32 master, AdamW moments, gradient sum, and the weights that stages compute with. Only shards write
// parameters.
//
// Acts:  start -> initial or restored master cast to weights -> ShardUpdated;  BlockGradientReady from every use of the block ->
//        with several replicas: all-reduce (ZeRO-1: reduce-scatter) of the gradient sum over them, while other blocks are still at
//        their backward; then its squared norm -> NormMeasured;  StepDecided -> AdamW (or cleared gradients), ZeRO-1: all-gather of
//        the weights -> ShardUpdated;
//        SnapshotRequested -> copy on the copy stream -> SnapshotTaken. The next update waits for that copy, by its event.
// Holds: one snapshot at a time; the ledger asks for the next after SaveDone.
// Invariants: no update before the norm of the whole step is known (ParameterShard.WaitsForTheDecision) and this replica's own sum is
//        complete (ParameterShard.KeepsADecisionThatComesBeforeItsSum); a tied embedding's two sums
//        are added once (ParameterShard.AddsTheTwoUsesOfATiedEmbeddingOnce); the snapshot is of one step
//        (ParameterShard.TheSnapshotIsOfOneStep, CASES T15).
#pragma once

#include <memory>
#include <optional>

#include "actors/control/collective_group.h"
#include "actors/plan/job_config.h"
#include "actors/plan/shard_memory.h"
#include "actors/protocol.h"
#include "actors/train/device_loop.h"
#include "kernels/table.h"

namespace troupe::actors {

class ParameterShard : public actor::Actor {
 public:
  struct Setup {
    const models::ModelConfig& model;
    const models::BlockLayout& layout;
    plan::ShardMemory& memory;
    const kernels::Table& kernels;
    device::Stream& compute;
    device::Stream& copy;              // snapshots
    plan::OptimizerSection optimizer;
    std::uint64_t seed = 0;
    bool restored = false;             // master and moments hold a checkpoint's values already
    StepId start;                      // the last step that is done
    int uses = 1;                      // how many BlockGradientReady make a step: 2 for a tied embedding
    plan::ShardShare share{};          // of this replica
  };
  explicit ParameterShard(Setup setup);
  // `replicas` is the group's actor, and empty without one; `writer` is where there is one.
  void connect_to(actor::Ref device, actor::Ref replica, actor::Ref writer, actor::Ref replicas);

 private:
  enum class Work : std::uint64_t { kPublish, kAddUses, kNorm, kUpdate };
  enum class Over : std::int64_t { kGradient, kWeights };  // what a collective is for
  void started() override;
  void gradient_ready(BlockGradientReady message);
  void collective_done(CollectiveDone message);
  void decided(StepDecided message);
  void snapshot_requested(SnapshotRequested message);
  void task_done(TaskDone message);
  void run(task::Task<> body, Work work);

  task::Task<> publish();
  task::Task<> add_uses(StepId step);
  task::Task<> measure_norm(StepId step);
  task::Task<> update(StepDecided decision);
  void enqueue_norm(StepId step);
  // When the stream gets there, the group is asked for `kind` of `flat`.
  void enqueue_collective(StepId step, Over over, comm::CollectiveKind kind, const device::Tensor& flat);
  void updated();
  task::Turn turn(StepId step, double bytes_per_element) const;

  const Setup setup_;
  actor::Ref device_, replica_, writer_, replicas_;
  int uses_ready_ = 0;
  bool summed_ = false;     // the step's gradient is complete, and its norm measured
  StepId step_;
  std::unique_ptr<DeviceTask> task_;
  std::optional<StepId> early_sum_;
  bool gathers_ = false;    // this step's update ends with the gather of the weights
  bool early_weights_ = false;
  std::optional<StepDecided> early_decision_;
  device::Event updated_;   // the last update on the compute stream
  device::Event copied_;    // the last snapshot; empty before the first
};

}  // namespace troupe::actors
