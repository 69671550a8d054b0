// What one pipeline stage holds on its device: every tensor, taken from an allocator by one function that the plan (which
// counts) and the run (which takes) both call.
//
// Owns: the tensors. Threads: built at start-up, then the stage's and the device loop's.
#pragma once

#include <vector>

#include "actors/plan/rooms.h"
#include "models/context.h"
#include "models/head_block.h"
#include "models/transformer_block.h"

namespace troupe::plan {

using device::Tensor;

// Which blocks a stage has and how much it keeps in flight.
struct StageShape {
  StageIndex index;
  int stages = 1;
  std::int32_t first_layer = 0, end_layer = 0;  // transformer layers [first, end), 0-based
  int in_flight = 1;                 // activation slots: micro-batches between forward and input gradient
  int batch_credits = 1;             // input slots
  int activation_credits = 0;        // to the next stage; 0 for the last
  int gradient_credits = 0;          // to the previous stage; 0 for the first
  int far_activations = 0, far_gradients = 0;  // slots for what comes from another process; 0 where the neighbour is in this one

  bool first() const { return index.value == 0; }
  bool last() const { return index.value == stages - 1; }
  int layers() const { return end_layer - first_layer; }
  BlockIndex block(int local_layer) const { return BlockIndex(first_layer + local_layer + 1); }
};

struct StageOptions {
  models::Geometry geometry;
  models::Recompute recompute = models::Recompute::kNone;
  int micro_batches = 1;             // of a step, at most
  int evaluation_batches = 0;        // at one request, at most; 0: no evaluation
  RoomShape rooms{};
};

// One micro-batch on its way through a stage.
struct ActivationSlot {
  std::vector<models::TransformerFrame> frames;  // per layer
  Tensor embedded;                   // first stage: the embedding's output
  std::vector<Tensor> outputs;       // per layer; the last one's is empty where it goes to the next stage
  models::HeadFrame head;            // last stage
};

struct StageMemory {
  std::vector<models::MicroBatchInputs> inputs;
  Tensor inverse_frequency;
  std::vector<ActivationSlot> slots;
  models::TransformerFrame workspace;                  // what recompute fills again
  models::TransformerGradientFrame gradients;
  Tensor residual_gradients[2];                        // dy and dx of a block, in turn
  std::vector<Tensor> activations_out, gradients_out;  // per credit
  std::vector<Tensor> activations_in, gradients_in;    // per credit, of a neighbour in another process
  Tensor loss_totals;                                  // last stage: [micro-batches, 2] fp64, loss sum and token count

  RoomMemory rooms;                                    // of split blocks

  // Forward only: nothing is kept from block to block.
  std::vector<models::MicroBatchInputs> evaluation_inputs;
  models::TransformerFrame evaluation_frame;
  Tensor evaluation_x[2];
  models::HeadFrame evaluation_head;
  std::vector<Tensor> evaluation_out, evaluation_in;   // as activations_out, activations_in
  Tensor evaluation_totals;                            // last stage: [batches, 2], as loss_totals

  static StageMemory take(const models::ModelConfig& model, const StageShape& shape, const StageOptions& options,
                          device::Allocator& from);
};

// Credits of the edges that carry evaluation: one being read, one being written.
inline constexpr int kEvaluationCredits = 2;
// Batches that a replica evaluates at one request: their totals travel in one frame, 16 bytes each (comm/transport.h has its limit).
inline constexpr int kEvaluationRound = 128;

}  // namespace troupe::plan
