// Owns one block's slice: fp32 master, AdamW moments, gradient sum, and the weights that stages compute with. Only shards write
// parameters.
//
// Acts:  start -> initial or restored master cast to weights -> ShardUpdated;
//        BlockGradientReady from every use of the block -> with several replicas: all-reduce (ZeRO-1: reduce-scatter) of that use's sum, while
//        other blocks are still at their backward (hybrid sharding: then all-reduce of the own part across the groups); with ZeRO-2, 3 instead GradientInRoom of every micro-batch -> reduce-scatter -> added to the
//        held sum; all uses summed (those of a tied embedding in two processes: an all-reduce of the two) -> their norm -> NormMeasured;
//        StepDecided -> AdamW (or cleared gradients) -> ShardUpdated; where the update is split, others fetch their weights from here, once
//        they are written;
//        SnapshotRequested -> copy on the copy stream -> SnapshotTaken. The next update waits for that copy, by its event.
// Holds: one snapshot at a time; the ledger asks for the next after SaveDone.
// Says: waiting for its gradient from the stage, for a collective, for its turn on the device; idle while the ledger decides.
// Invariants: no update before the norm of the whole step is known (ParameterShardTest.WaitsForTheDecision) and this replica's own sum is
//        complete (ParameterShardTest.KeepsADecisionThatComesBeforeItsSum); a tied embedding's two sums
//        are added once (ParameterShardTest.AddsTheTwoUsesOfATiedEmbeddingOnce), each reduced on its own, so that every ZeRO stage adds alike;
//        micro-batches are added in their order (ParameterShardTest.AddsMicroBatchesInTheirOrder); the snapshot is of one step
//        (ParameterShardTest.TheSnapshotIsOfOneStep, CASES T15).
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "actors/control/collective_group.h"
#include "actors/plan/job_config.h"
#include "actors/plan/shard_memory.h"
#include "actors/protocol.h"
#include "actors/train/device_loop.h"
#include "actors/train/gradient_rooms.h"
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
    int uses = 1;                      // in how many ranges the block's gradient is made: plan::gradient_uses
    int micro_batches = 1;             // of a step
    plan::ShardShare share{};          // of this replica
    // Where updates are split: called on the compute stream when the own part of the weights is as `step` left it.
    std::function<void(StepId step)> written{};
    std::string stage{};               // the actor whose backward completes the gradient
    // Where a tied embedding's uses are in different processes: the group of the two.
    actor::Ref both_uses{};
  };
  explicit ParameterShard(Setup setup);
  // `replicas` is the actor of the group that splits or sums, and empty without one; `across` that of those with the same part in each group
  // of a hybrid sharding; `writer` is where there is one.
  void connect_to(actor::Ref device, actor::Ref replica, actor::Ref writer, actor::Ref replicas, actor::Ref across = {});

 private:
  enum class Work : std::uint64_t { kPublish, kAccumulate, kJoin, kNorm, kUpdate };
  // What a collective is for; an operation's id has it, the step, the block and the micro-batch.
  enum class Over : std::int64_t { kGradient, kProjectionGradient, kGradientAcross, kProjectionAcross, kBothUses };
  static constexpr std::int64_t kOvers = 5;
  struct Addend {
    GradientInRoom gradient;
    bool reduced = false;
  };
  // What is reduced: elements [range) of the block, in `flat`.
  struct Sum {
    StepId step;
    MicroBatchId micro_batch;
    plan::GradientUse use = plan::GradientUse::kBlock;
    plan::GradientRange range;
    device::TensorView flat;
    bool across = false;
  };
  struct Waiting {
    task::Task<> body;
    Work work;
  };
  // The device has measured the norm.
  struct NormReached {};
  void started() override;
  void gradient_ready(BlockGradientReady message);
  void gradient_in_room(GradientInRoom message);
  void collective_done(CollectiveDone message);
  void decided(StepDecided message);
  void snapshot_requested(SnapshotRequested message);
  void task_done(TaskDone message);
  void norm_reached(NormReached message);
  void run(task::Task<> body, Work work);
  void start_next();
  void show_state();
  std::string what_joining() const;
  std::string what(plan::GradientUse use, bool across) const;
  std::string what(const Sum& sum) const { return what(sum.use, sum.across); }
  trace::Name& name_of(plan::GradientUse use, bool across) {
    return sum_names_[use == plan::GradientUse::kProjection][across];
  }
  void reduce(const Sum& sum);
  // Of a hybrid sharding: the own part, once it is the group's. Nothing is left to do where it is empty.
  void reduce_across(const Sum& sum);
  bool is_sparse(const Sum& sum) const;
  void reduced(const Sum& sum);
  void add_what_is_reduced();
  void summed(StepId step);
  void complete(StepId step);
  // Elements of a tied embedding that this replica holds.
  plan::GradientRange held_rows() const;

  task::Task<> publish();
  task::Task<> accumulate(GradientInRoom addend);
  task::Task<> join_uses(StepId step);
  task::Task<> measure_norm(StepId step);
  task::Task<> update(StepDecided decision);
  void enqueue_norm(StepId step);
  void tell_written(StepId step);
  comm::OperationId operation(StepId step, MicroBatchId micro_batch, Over over) const;
  task::Turn turn(StepId step, double bytes_per_element, trace::FixedText what, MicroBatchId micro_batch = MicroBatchId(-1)) const;

  const Setup setup_;
  actor::Ref device_, replica_, writer_, replicas_, across_;
  StepId step_;
  std::unique_ptr<DeviceTask> task_;
  std::deque<Waiting> next_;            // after task_, in order
  std::deque<Addend> addends_;          // in the order of their micro-batches
  std::map<comm::OperationId, Sum> reducing_;
  std::optional<comm::OperationId> joining_;  // both uses, between two processes
  int uses_summed_ = 0;
  bool measuring_ = false;  // its norm, on the device
  bool summed_ = false;     // the step's gradient is complete, and its norm being measured
  std::optional<StepDecided> early_decision_;
  device::Event updated_;   // the last update on the compute stream
  device::Event copied_;    // the last snapshot; empty before the first
  trace::Name gradient_, stage_name_, device_name_, replicas_name_, across_name_, both_uses_name_, joining_name_;
  std::array<std::array<trace::Name, 2>, 2> sum_names_;  // by use, and whether across the groups
};

}  // namespace troupe::actors
