// A pipeline stage: consecutive blocks, and the micro-batches that are on their way through them.
//
// Acts:  Batch and Activation of a micro-batch, a free activation slot, a credit to send on -> forward pass;
//        Gradient (last stage: own loss) and a credit to send back -> backward pass: per block recompute, input gradient, weight
//        gradient. Passes are tasks on the device loop, a turn per block and kind; a stage issues its forward passes in order and its
//        backward passes in order, so sums over micro-batches have one order. 1F1B is nothing but this and the keys.
//        In the step's last micro-batch: BlockGradientReady to a block's shard as soon as its weight gradient is there (ZeRO-2, 3: of every
//        micro-batch, in a room). Weights are read where the shards have them, or gathered into rooms (ZeRO-3).
//        Evaluation batches: forward only, lowest urgency. ShareEnded, and all batches of the step computed -> the same for all blocks at
//        once: where replicas pull, a replica may hear only then that it had the last, or none at all.
// Holds: an activation slot, its batch and its incoming activation from forward until the weight gradients are enqueued; a credit
//        goes back with the event after which its buffer may be overwritten.
// Order: activation slot, then output credit, then rooms (DESIGN law 6; stage_rooms.h).
// Invariants: an event stands before every read of another actor's buffer; what cannot run leaves the mailbox and is *ready*
//        (Stage.SaysReadyAndStartsNothingWhileTheDeviceHasNoRoom).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "actors/plan/plan.h"
#include "actors/protocol.h"
#include "actors/train/device_loop.h"
#include "models/embedding_block.h"
#include "models/head_block.h"
#include "models/transformer_block.h"
#include "runtime/actor/edge.h"

namespace troupe::actors {

// A block's weights and gradient sums as a stage sees them; the shard owns both. Empty where they are split: passes bind rooms instead.
struct BlockTensorsOfStage {
  models::BlockWeights weights;
  models::BlockGradients gradients;
};

class Stage : public actor::Actor {
 public:
  struct Setup {
    const plan::Plan& plan;
    plan::StageShape shape;
    plan::StageMemory& memory;
    const kernels::Table& kernels;
    device::Stream& stream;
    std::uint64_t seed = 0;
    // The blocks of this stage in order: embedding (first stage), layers, head (last stage).
    std::vector<BlockTensorsOfStage> blocks{};
    device::ConstTensorView projection{};    // last stage: [Vp, C]
    device::TensorView projection_gradient{};  // last stage
    // Who hears that a block's gradient is complete.
    std::vector<actor::Ref> shards{};
    actor::Ref tied{};                         // last stage: the shard of the embedding that the head uses too
    actor::Ref whole_weights{}, weight_rooms{}, gradient_rooms{};  // where updates, weights, gradients are split
  };
  explicit Stage(Setup setup);
  ~Stage() override;
  // Before the system starts.
  // `source` hears of each micro-batch that was computed: for the first stage where replicas pull.
  void connect_to(actor::Ref device, actor::Ref ledger, actor::Ref source = {});

  actor::In<Batch> batch{*this, "batch", &Stage::batch_arrived};
  actor::In<Activation> activation_in{*this, "activation", &Stage::activation_arrived};
  actor::In<Gradient> gradient_in{*this, "gradient", &Stage::gradient_arrived};
  actor::Out<Activation> activation_out{*this, "activation"};
  actor::Out<Gradient> gradient_out{*this, "gradient"};

  actor::In<Batch> evaluation_batch{*this, "evaluation-batch", &Stage::evaluation_batch_arrived};
  actor::In<Activation> evaluation_in{*this, "evaluation", &Stage::evaluation_arrived};
  actor::Out<Activation> evaluation_out{*this, "evaluation"};

 private:
  struct Flight;  // one micro-batch
  class WeightsWalk;
  class GradientPlace;
  enum class Pass : std::uint64_t { kForward, kBackward, kEvaluation, kClose };

  // The device has done all of a pass that was enqueued.
  struct PassReached {};
  void started() override;
  void batch_arrived(actor::Delivery<Batch> delivery);
  void activation_arrived(actor::Delivery<Activation> delivery);
  void gradient_arrived(actor::Delivery<Gradient> delivery);
  void evaluation_batch_arrived(actor::Delivery<Batch> delivery);
  void evaluation_arrived(actor::Delivery<Activation> delivery);
  void credit_came();
  void share_ended(ShareEnded message);
  void pass_reached(PassReached message);
  void task_done(TaskDone message);

  void start_what_can();
  bool start_forward();
  bool start_backward();
  bool start_evaluation();
  bool start_close();
  void forward_done(const device::Event& done);
  void backward_done(const device::Event& done);
  void evaluation_done(const device::Event& done);
  void show_state();
  void run(std::unique_ptr<DeviceTask>& place, task::Task<> body, Pass pass);

  // The passes (stage_passes.cc). They run in the device loop's context and touch nothing but their flight and the blocks.
  task::Task<> forward_pass(Flight& flight);
  task::Task<> backward_pass(Flight& flight);
  task::Task<> evaluation_pass(Flight& flight);
  task::Task<> close_pass(Flight& flight, std::int32_t count);
  models::Context context(const Flight& flight, bool training) const;
  task::Turn turn(const Flight& flight, task::Urgency urgency, int position, double cost, trace::FixedText what, BlockIndex block) const;
  const models::BlockLayout& layout(BlockIndex block) const { return plan_.blocks[static_cast<std::size_t>(block.value)]; }
  BlockIndex first_block() const { return shape_.first() ? BlockIndex(0) : shape_.block(0); }
  BlockIndex last_block() const { return shape_.last() ? plan_.model.head_block() : shape_.block(shape_.layers() - 1); }
  const actor::Ref& shard_of(BlockIndex block) const;
  // Blocks in the order of a pass, with the one that the projection's weights are of.
  std::vector<BlockIndex> forward_order() const, backward_order() const;
  void bind_head(device::ConstTensorView gathered);
  // The step's sum of that use is complete once what is enqueued has run.
  void tell_gradient(StepId step, BlockIndex block, plan::GradientUse use) const;

  const plan::Plan& plan_;
  const plan::StageShape shape_;
  plan::StageMemory& memory_;
  const kernels::Table& kernels_;
  device::Stream& stream_;
  const std::uint64_t seed_;
  const std::vector<actor::Ref> shards_;
  const actor::Ref tied_, whole_weights_, weight_rooms_, gradient_rooms_;
  actor::Ref device_, ledger_, source_;

  std::optional<models::EmbeddingBlock> embedding_;
  std::vector<models::TransformerBlock> layers_;
  std::optional<models::HeadBlock> head_;

  std::deque<actor::Delivery<Batch>> batches_, evaluation_batches_;
  std::deque<actor::Delivery<Activation>> activations_, evaluations_;
  std::deque<actor::Delivery<Gradient>> gradients_;
  std::vector<int> free_slots_;
  std::deque<std::unique_ptr<Flight>> in_flight_;    // forward started, in order
  std::unique_ptr<Flight> evaluating_, closing_;
  std::unique_ptr<DeviceTask> forward_, backward_, evaluation_, close_;
  int unreached_ = 0;                              // passes that are enqueued and not done on the device
  std::optional<ShareEnded> share_;                 // told, and not all of it computed yet
  std::int32_t computed_ = 0;                       // micro-batches of the step
  Flight* forwarding_ = nullptr;
  struct {
    trace::Name device, batch, activation, gradient, evaluation;
  } names_;                                        // of what it waits for
};

}  // namespace troupe::actors
