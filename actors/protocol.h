// All messages between the actors of a training job. Facts are in the past, requests in the imperative.
//
// Edges (Batch, Activation, Gradient) carry tensors and take credits. All others are control messages: at most one of a kind is
// outstanding between two actors, because each is answered, by a fact further on, before the next can be sent.
//
// The ledger is in rank 0, and so is the assigner where replicas pull; every other actor below is in each process of each replica, with the
// stages, shards and samples of that process. What passes between them and the ledger goes through the process's agent
// (actors/train/replica.h).
//
//   ledger --OpenStep--> source --Batch--> stages ==Activation==> ... (loss) --StepLossMeasured--> ledger
//                                          stages <==Gradient====
//   where replicas pull: source --MicroBatchAsked--> assigner --MicroBatchAssigned--> source;  source --ShareEnded--> stages;
//                        first stage --MicroBatchComputed--> source
//   stages --BlockGradientReady--> shards --CollectiveRequested--> group --CollectiveDone--> shards (actors/control)
//   (ZeRO-2, 3: stages --GradientInRoom--> shards for each micro-batch; ZeRO-1 and up: stages --WeightsWanted--> gathered weights)
//   shards --NormMeasured--> ledger --StepDecided--> shards --ShardUpdated--> replica --ReplicaUpdated--> ledger
//   ledger --SnapshotRequested--> shards --SnapshotTaken--> checkpoint writers;  ledger --SaveRequested--> writer of replica 0
//   --WriteShard--> writers --ShardWritten--> writer of replica 0 --SaveDone--> ledger
//   ledger --EvaluationRequested--> evaluators --Batch--> stages --EvaluationMeasured--> ledger
//   ledger --StepClosed--> reporter --StepWritten--> ledger;  ledger --JobEnded, StopRequested--> replicas
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/plan/rooms.h"
#include "models/context.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/device/stream.h"

namespace troupe::actors {

// --- names, by which others speak of them ---

inline std::string shard_name(BlockIndex block) { return "shard-" + std::to_string(block.value); }
inline std::string stage_name(StageIndex stage) { return "stage-" + std::to_string(stage.value); }
inline constexpr const char* kDeviceName = "device";

// --- along edges ---

// Integers of one micro-batch, in the input slot of the stage it goes to.
struct Batch {
  StepId step;
  MicroBatchId micro_batch;  // 0, 1, ... of those that this replica computes
  models::MicroBatchInputs inputs;
  bool last = false;         // of the step; where it is not known yet, ShareEnded tells
};
// Output of a stage's last layer, [N, C]; to be read after `ready`.
struct Activation {
  StepId step;
  MicroBatchId micro_batch;
  device::Tensor x;
  device::Event ready;
};
// Gradient of what the next stage was given, [N, C]; to be read after `ready`.
struct Gradient {
  StepId step;
  MicroBatchId micro_batch;
  device::Tensor dx;
  device::Event ready;
};

// For the edges' probes.
inline std::int64_t carried_bytes(const Batch& m) {
  const auto& in = m.inputs;
  std::int64_t bytes = 0;
  for (const auto* tensor : {&in.tokens, &in.targets, &in.positions, &in.document_start, &in.sample_ids}) bytes += tensor->view().bytes();
  return bytes;
}
inline std::int64_t carried_bytes(const Activation& m) { return m.x.view().bytes(); }
inline std::int64_t carried_bytes(const Gradient& m) { return m.dx.view().bytes(); }

// --- a step ---

struct OpenStep {
  StepId step;
  std::int64_t cursor = 0;  // samples consumed before this step
};
// The last micro-batch of the step goes to the stages next, or all that this replica computes have gone.
struct StepFed {
  StepId step;
  std::int64_t waited_ns = 0;  // the stages could have taken a batch that was not read yet
  std::uint64_t sample_hash = 0;  // the sum of the sample ids' hashes; from the process of the first stage, else 0
  int replica = 0;             // set by the replica on the way to the ledger
  // Where replicas pull, from the process of the first stage: the replica's micro-batches, by their index in the step, in its order.
  std::vector<std::int32_t> pulled{};
};
// Where replicas pull, from the first stage to the source: the device has computed one more. Credits come back before that, when the
// work is enqueued.
struct MicroBatchComputed {
  StepId step;
};
// Where replicas pull, from a replica that has room for its `next`th micro-batch of the step (from 0). Answered once; said again, with
// the same `next`, by one that finishes another meanwhile.
struct MicroBatchAsked {
  StepId step;
  std::int32_t next = 0;
  std::int32_t finished = 0;      // computed, of those it was given in this step
  bool open = false;              // the step is open here: it computes what it has
  std::int64_t pace_ns = 0;       // what each of those took that have finished since the last message; 0: none has
  int replica = 0;                // set by the replica on the way to the assigner
};
struct MicroBatchAssigned {
  StepId step;
  std::int32_t micro_batch = -1;  // its index in the step; -1: all are with somebody, this replica's share has ended
  bool last = false;              // and its share ends with this one
};
// To the stages: `count` batches have come, none of them marked as the last, and no more will.
struct ShareEnded {
  StepId step;
  std::int32_t count = 0;
};
struct LossTotal {
  double loss = 0;    // sum over tokens
  double tokens = 0;  // unmasked
};
struct StepLossMeasured {
  StepId step;
  LossTotal total;    // folded in micro-batch order
  int replica = 0;    // set by the replica on the way to the ledger
};
// The gradient sum of a block (or of a tied embedding's use in the head) holds all micro-batches of the step. With several replicas: on
// the device too, not only on the stream.
struct BlockGradientReady {
  StepId step;
  plan::GradientUse use = plan::GradientUse::kBlock;
};
struct NormMeasured {
  StepId step;
  BlockIndex block;
  double squares = 0;  // of the gradient sum, not yet divided by tokens; of the part that this replica holds
  int replica = 0;     // set by the replica on the way to the ledger
};
struct StepDecided {
  StepId step;
  bool skip = false;   // leave parameters and moments, clear the gradients
  std::int64_t update = 1;  // how many updates there are with this one: AdamW's step
  double learning_rate = 0;
  double gradient_scale = 0;  // clip factor / tokens
};
// The update is on the stream: what is enqueued from now on sees the new weights, of a split update its own part (train/whole_weights.h). Also
// sent once at the start.
struct ShardUpdated {
  StepId step;
  BlockIndex block;
};

// All shards of a process are updated. The first one says what the process begins with: all must begin alike.
struct ReplicaUpdated {
  StepId step;
  Rank rank;
  std::uint64_t job = 0;    // what all processes must have alike: plan::fingerprint
};

// What a step was, for people and files.
struct StepReport {
  StepId step;
  double loss = 0, grad_norm = 0, learning_rate = 0;
  std::int64_t tokens = 0;          // unmasked, of this step
  std::int64_t step_ns = 0, data_wait_ns = 0, checkpoint_wait_ns = 0;
  std::uint64_t sample_hash = 0;    // the sum of its sample ids' hashes
  bool skipped = false;
  std::string skip_reason;
  std::vector<std::vector<std::int32_t>> assigned{};  // where replicas pull: the micro-batches of each, in its order
  std::optional<double> validation_loss;
};
struct StepClosed {
  StepReport report;
};
// Its line is in metrics.jsonl, as far as the disk takes it.
struct StepWritten {
  StepId step;
};

// --- evaluation ---

// Of some of the batches; of the next ones when all totals of these have come, so that none of the messages grows with their number.
struct EvaluationRequested {
  StepId step;                    // its weights
  std::int32_t begin = 0, end = 0;  // batches [begin, end) of all replicas'; begin + i is for replica i mod N
};
// By a replica that had any of them.
struct EvaluationMeasured {
  StepId step;
  std::vector<LossTotal> totals;  // of each of its batches, in order: begin + replica, + N, + 2 N ...
  int replica = 0;                // set by the replica on the way to the ledger
};

// --- checkpoint ---

struct SnapshotRequested {
  StepId step;
};
struct SnapshotTaken {
  StepId step;
  BlockIndex block;
};
// What a checkpoint tells besides the tensors; the ledger's state, after `step`.
struct RunState {
  StepId step;
  std::int64_t samples = 0, tokens = 0;
  std::int64_t updates = 0, skipped = 0;
  double loss_average = 0;          // of the spike guard; 0 before the first
  std::int64_t averaged = 0;        // losses in it
  std::int64_t skipped_in_a_row = 0;  // up to now
  std::uint64_t data = 0;           // fingerprint of the training data: what a sample id means
};
struct SaveRequested {
  RunState state;
};
// From the writer that leads a save to the others: the folder is there, write your part; and their answer.
struct WriteShard {
  StepId step;
};
struct ShardWritten {
  StepId step;
  Rank rank;
  Status result;
};
struct SaveDone {
  StepId step;
  Status result;
  std::string folder;
  std::int64_t took_ns = 0;
};

// --- the run ---

// The ledger has ended the job: replicas elsewhere end too.
struct JobEnded {
  Status result;
};
// A process with a replica or the ledger is gone.
struct PeerWentDown {
  Rank rank;
  Status cause;
};
// The run goes on up to and with this step, then holds until it is told again. Without any, it goes on to its end.
struct HoldAfter {
  StepId step;
};
// Somebody asked the run to end after this step, with a checkpoint.
struct StopRequested {
  std::string reason;
};

}  // namespace troupe::actors
