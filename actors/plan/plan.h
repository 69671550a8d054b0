// The plan of a job: a pure function of config and cluster. Which blocks go to which stage, which edges join them with how many
// credits and why, what memory each term takes, what a step costs. `troupe plan` prints it, the run builds from it.
//
// Errors: kInvalidArgument for what can never fit (more stages than layers), kFailedPrecondition for a schedule that stops (schedule.h),
// kResourceExhausted for what does not fit this machine, each with the nearest plan that does.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/plan/job_config.h"
#include "actors/plan/placement.h"
#include "actors/plan/schedule.h"
#include "actors/plan/shard_memory.h"
#include "actors/plan/stage_memory.h"
#include "kernels/table.h"
#include "models/model_config.h"
#include "models/parameters.h"

namespace troupe::plan {

// What the job may use.
struct Cluster {
  int threads = 1;                     // compute threads of this process's device
  std::int64_t memory_bytes = 0;       // that a process may take
  int processes = 0;                   // of the job; 0: one for each replica

  static Cluster of_this_machine(const JobConfig& job);
};

struct EdgePlan {
  std::string from, to;                // actor.port
  bool far = false;                    // to another process
  int credits = 0;
  std::string credit_terms;            // the sum, one term per holder
  std::int64_t bytes_per_credit = 0;
};

// What a process takes.
struct ProcessMemory {
  std::map<std::string, std::int64_t> bytes;  // by term; "process" is code, stacks, libraries
  std::int64_t scratch_bytes = 0;      // of the compute stream
  std::int64_t pool_bytes = 0;         // what the device pool must hold
  std::int64_t total_bytes = 0;
};

struct Plan {
  models::ModelConfig model;
  models::Geometry geometry;
  models::Recompute recompute = models::Recompute::kNone;
  Placement placement;
  int replicas = 1;                    // data-parallel; the placement's
  int zero = 0;                        // what of a block is split over them
  int shard_group = 0;                 // hybrid sharding: replicas that split between them; 0: all
  int prefetch = 1;                    // ZeRO-3: blocks gathered ahead of the one that computes
  bool reshard_after_forward = true;   // ZeRO-3: gathered again for the backward
  int micro_batches = 1;               // of a step and replica; where replicas pull, on average, rounded up
  bool pulls = false;                  // replicas take micro-batches as they come to compute them: one may compute all of a step
  int evaluation_batches = 0;          // per evaluation, divided over the replicas
  std::int64_t global_batch = 1;
  int threads = 1;
  bool snapshots = true;               // memory for a consistent copy is kept

  std::vector<StageShape> stages;
  std::vector<models::BlockLayout> blocks;
  std::vector<EdgePlan> edges;
  Rehearsal rehearsal;

  std::int64_t parameters = 0;
  double flops_per_step = 0;           // models/flops.h; of all replicas
  std::int64_t scratch_bytes = 0;      // of the compute stream, for all stages
  std::int64_t chunk_tokens = 0;       // of the fused head
  std::vector<ProcessMemory> memory;   // by part of a replica

  // Of the part that takes most.
  std::map<std::string, std::int64_t> memory_bytes;
  std::int64_t pool_bytes = 0, total_bytes = 0;

  int step_micro_batches() const { return static_cast<int>(global_batch / geometry.batch); }
  int most_micro_batches() const { return pulls ? step_micro_batches() : micro_batches; }  // of a step, that a replica may compute
  // That a replica computes at one request.
  int most_evaluation_batches() const { return std::min(kEvaluationRound, (evaluation_batches + replicas - 1) / replicas); }
  StageOptions stage_options(const StageShape& shape) const {
    return {geometry, recompute, most_micro_batches(), most_evaluation_batches(), RoomShape::of(*this, shape)};
  }
  ShardShare share(int replica) const { return {replica, replicas, zero, shard_group, model.tied_embeddings && placement.parts > 1}; }
  // The last part has a copy of a tied embedding, where that is not in the same process.
  bool copies_embedding(int part) const { return share(0).uses_apart && part == placement.parts - 1; }
  // The stages of a part, and its blocks: consecutive ones.
  std::span<const StageShape> stages_of(int part) const;
  std::span<const models::BlockLayout> blocks_of(int part) const;
  const models::BlockLayout& layout_of(BlockIndex block) const { return blocks[static_cast<std::size_t>(block.value)]; }
  // Forward FLOPs of a micro-batch in one layer, and in the head; a backward half costs as much.
  double layer_cost() const;
  double head_cost() const;
  std::int64_t tokens_per_step() const { return global_batch * geometry.seq_len; }
};

// `kernels` says what scratch its operations need.
StatusOr<Plan> make_plan(const JobConfig& job, const Cluster& cluster, const kernels::Table& kernels);

// kResourceExhausted when the plan needs more memory than the cluster has; says by how much, and what to change.
Status fits(const Plan& plan, const Cluster& cluster);

// What all replicas of a job must have alike: equal configs (but for where and how often they write) have equal fingerprints.
std::uint64_t fingerprint(const JobConfig& job);

// Text for people: model, placement, edges with credits, memory by term, cost.
std::string describe(const Plan& plan, const Cluster& cluster);

}  // namespace troupe::plan
