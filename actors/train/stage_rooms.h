// How a pass gets at weights and gradients that do not lie in the shards (ZeRO-2 and 3). Where they lie there, its gates are open and nothing
// is bound. Private to stage.cc, stage_passes.cc and stage_rooms.cc; runs in the device loop's context.
//
// A pass takes a gradient's place first, then the block's weights, then its turns: between the two turns of a backward it may not wait, and
// whoever has weights waits for nobody but the device (with prefetch, the next block's weights wait along).
// Threads: the device loop's; each is of one pass. Owns: its gates; rooms are those of weight_rooms.h and gradient_rooms.h. Errors: a block that
// is asked for out of its order is a bug; rooms that cannot be filled fail their own actor, and the pass is not resumed.
#pragma once

#include <memory>
#include <vector>

#include "actors/train/gradient_rooms.h"
#include "actors/train/stage_flight.h"
#include "actors/train/weight_rooms.h"

namespace troupe::actors {

// The weights that a pass computes with, in its order: it waits until they are of its step; of gathered ones it has at most prefetch + 1
// blocks at once. Inert where updates are not split: then the stream's order is enough.
//   co_await walk.of(block);  co_await its turn;  walk.bind(...);  its kernels;  walk.leave()
class Stage::WeightsWalk {
 public:
  // `order`: the blocks of the pass, each as often as it is asked for.
  WeightsWalk(const Stage& stage, const Flight& flight, std::vector<BlockIndex> order);
  // Where the pass waits for its next block's weights; asks for them and for what comes after them.
  task::Gate& of(BlockIndex block);
  // [elements] of the block that was asked for last; empty where they lie in the shard.
  device::ConstTensorView flat() const { return next_ > 0 && gates_ ? gates_[next_ - 1].flat : device::ConstTensorView(); }
  template <class Block>
  void bind(Block& to) const {
    if (flat()) to.bind(models::BlockWeights(stage_.layout(order_[next_ - 1]), flat()));
  }
  // What is enqueued was the last that reads them.
  void leave();

 private:
  const Stage& stage_;
  const StepId step_;
  const std::vector<BlockIndex> order_;
  std::unique_ptr<WeightsGate[]> gates_;   // none where the walk is inert
  task::Gate open_;
  std::size_t asked_ = 0, next_ = 0, left_ = 0;
};

// Where a micro-batch's gradient of one block (or of the head's projection) goes.
//   co_await place.gate();  co_await its turn;  place.bind(...);  its kernels;  place.done()
class Stage::GradientPlace {
 public:
  GradientPlace(const Stage& stage, const Flight& flight, BlockIndex block, plan::GradientUse use);
  task::Gate& gate() { return gate_; }
  // Cleared, in stream order; empty where the sum lies in the shard. [the range's elements]
  device::TensorView flat();
  template <class Block>
  void bind(Block& to) {
    if (const auto view = flat()) to.bind(models::BlockGradients(stage_.layout(range_.block), view));
  }
  // The kernels that make it are enqueued: the shard hears of it.
  void done();

 private:
  const Stage& stage_;
  const Flight& flight_;
  const plan::GradientUse use_;
  const plan::GradientRange range_;
  GradientGate gate_;
};

}  // namespace troupe::actors
