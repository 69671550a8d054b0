#include "actors/train/stage_rooms.h"

namespace troupe::actors {

Stage::WeightsWalk::WeightsWalk(const Stage& stage, const Flight& flight, std::vector<BlockIndex> order)
    : stage_(stage), step_(flight.evaluates ? StepId(flight.step.value + 1) : flight.step), order_(std::move(order)) {
  open_.open();
  if (stage.whole_weights_) gates_ = std::make_unique<WeightsGate[]>(order_.size());
}

task::Gate& Stage::WeightsWalk::of(BlockIndex block) {
  TROUPE_CHECK(next_ < order_.size() && order_[next_] == block) << "a pass asks for the weights of block " << block << " out of turn";
  ++next_;
  if (!gates_) return open_;
  for (const std::size_t end = next_ + static_cast<std::size_t>(stage_.plan_.prefetch); asked_ < order_.size() && asked_ < end; ++asked_) {
    const bool split = stage_.plan_.share(0).splits_weights(stage_.layout(order_[asked_]));
    const auto& from = split ? stage_.weight_rooms_ : stage_.whole_weights_;
    gates_[asked_].opened_by = &from.name();
    from.send(WeightsWanted{.block = order_[asked_], .step = step_, .gate = &gates_[asked_]});
  }
  return gates_[next_ - 1];
}

void Stage::WeightsWalk::leave() {
  if (!gates_) return;
  for (; left_ < next_; ++left_) {
    const int room = gates_[left_].room;
    if (room < 0) continue;  // they lie in the shard
    stage_.stream_.notify([rooms = stage_.weight_rooms_, room](device::StreamContext&) { rooms.send(WeightsLeft{room}); });
  }
}

Stage::GradientPlace::GradientPlace(const Stage& stage, const Flight& flight, BlockIndex block, plan::GradientUse use)
    : stage_(stage), flight_(flight), use_(use), range_(plan::gradient_range(stage.plan_.model, stage.plan_.blocks, block, use)) {
  if (!stage.gradient_rooms_) {
    gate_.open();
    return;
  }
  using plan::GradientRoom;
  const bool projection = use == plan::GradientUse::kProjection;
  const auto kind = projection ? GradientRoom::kProjection : block.value == 0 ? GradientRoom::kEmbedding : GradientRoom::kLayer;
  gate_.opened_by = &stage.gradient_rooms_.name();
  stage.gradient_rooms_.send(GradientRoomWanted{.kind = kind, .block = range_.block, .gate = &gate_});
}

device::TensorView Stage::GradientPlace::flat() {
  if (!stage_.gradient_rooms_) return {};
  const auto view = gate_.flat.rows(0, range_.elements());
  stage_.kernels_.fill(stage_.stream_, {view, 0});
  return view;
}

void Stage::GradientPlace::done() {
  const bool last = flight_.batch.message.last;
  if (!stage_.gradient_rooms_) {
    // an untied head's projection is summed with the rest of its block
    if (last && (use_ == plan::GradientUse::kBlock || stage_.plan_.model.tied_embeddings)) stage_.tell_gradient(flight_.step, range_.block, use_);
    return;
  }
  GradientInRoom told{.step = flight_.step, .micro_batch = flight_.micro_batch, .use = use_, .last = last, .range = range_,
                      .flat = gate_.flat.rows(0, range_.elements()), .room = {gate_.kind, gate_.room}, .rooms = stage_.gradient_rooms_};
  stage_.stream_.notify([shard = stage_.shard_of(range_.block), told = std::move(told)](device::StreamContext&) { shard.send(told); });
}

void Stage::tell_gradient(StepId step, BlockIndex block, plan::GradientUse use) const {
  const BlockGradientReady ready{step, use};
  if (plan_.replicas == 1) {
    shard_of(block).send(ready);  // what the shard enqueues comes after the gradient on the one compute stream
  } else {
    stream_.notify([shard = shard_of(block), ready](device::StreamContext&) { shard.send(ready); });
  }
}

}  // namespace troupe::actors
