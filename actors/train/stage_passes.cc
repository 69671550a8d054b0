// The passes of a stage: what is enqueued for one micro-batch, a turn per block and kind of work.
#include "actors/train/stage_rooms.h"

namespace troupe::actors {

using device::ConstTensorView, device::TensorView;
using task::Urgency;

namespace {

// Where a micro-batch's loss sum and token count go: [2]. (Not inside a co_await: g++ 12 cannot keep the braces' array there.)
TensorView total_of(TensorView totals, MicroBatchId micro_batch) {
  return totals.rows(micro_batch.value, micro_batch.value + 1).reshaped({2});
}

// When the stream gets there: the totals of the first `count` micro-batches, folded in their order.
void tell_loss(device::Stream& stream, const actor::Ref& ledger, StepId step, TensorView totals, std::int32_t count) {
  stream.notify([ledger, totals, step, count](device::StreamContext&) {
    LossTotal sum;
    const double* values = totals.data<double>();
    for (std::int64_t i = 0; i < count; ++i) {
      sum.loss += values[2 * i];
      sum.tokens += values[2 * i + 1];
    }
    ledger.send(StepLossMeasured{step, sum});
  });
}

// The totals of the first `count` batches as they are: the ledger has those of the other replicas to put between.
void tell_evaluation(device::Stream& stream, const actor::Ref& ledger, StepId step, TensorView totals, std::int32_t count) {
  stream.notify([ledger, totals, step, count](device::StreamContext&) {
    EvaluationMeasured measured{.step = step, .totals = {}};
    const double* values = totals.data<double>();
    for (std::int64_t i = 0; i < count; ++i) measured.totals.push_back({values[2 * i], values[2 * i + 1]});
    ledger.send(std::move(measured));
  });
}

}  // namespace

models::Context Stage::context(const Flight& flight, bool training) const {
  return {.kernels = kernels_, .stream = stream_, .geometry = plan_.geometry, .inputs = &flight.batch.message.inputs, .seed = seed_,
          .step = flight.step, .training = training};
}

task::Turn Stage::turn(const Flight& flight, Urgency urgency, int position, double cost, trace::FixedText what, BlockIndex block) const {
  return {.key = {.urgency = urgency, .step = flight.step.value, .micro_batch = flight.micro_batch.value,
                  .position = shape_.index.value * 1024 + position},
          .cost = cost,
          .shown = {.what = what, .block = block.value, .step = flight.step.value, .micro_batch = flight.micro_batch.value}};
}

const actor::Ref& Stage::shard_of(BlockIndex block) const {
  if (block.value == 0 && tied_) return tied_;
  return shards_[static_cast<std::size_t>(block.value - first_block().value)];
}

std::vector<BlockIndex> Stage::forward_order() const {
  std::vector<BlockIndex> order;
  if (embedding_) order.push_back(BlockIndex(0));
  for (int layer = 0; layer < shape_.layers(); ++layer) order.push_back(shape_.block(layer));
  if (head_ && plan_.model.tied_embeddings) order.push_back(BlockIndex(0));
  if (head_) order.push_back(plan_.model.head_block());
  return order;
}

std::vector<BlockIndex> Stage::backward_order() const {
  std::vector<BlockIndex> order;
  if (head_) order.push_back(plan_.model.head_block());
  for (int layer = shape_.layers() - 1; layer >= 0; --layer) order.push_back(shape_.block(layer));
  return order;
}

// `gathered`: of the block that the projection is of. A tied model's own head block is never split (ShardShare::splits_weights).
void Stage::bind_head(ConstTensorView gathered) {
  if (!gathered) return;
  const bool tied = plan_.model.tied_embeddings;
  const models::BlockWeights block(layout(tied ? BlockIndex(0) : plan_.model.head_block()), gathered);
  head_->bind_projection(block[tied ? models::Role::kTokenEmbedding : models::Role::kHead]);
  if (!tied) head_->bind(block);
}

task::Task<> Stage::forward_pass(Flight& flight) {
  auto ctx = context(flight, true);
  auto& slot = memory_.slots[static_cast<std::size_t>(flight.slot)];
  WeightsWalk weights(*this, flight, forward_order());
  co_await weights.of(embedding_ ? BlockIndex(0) : shape_.block(0));
  co_await turn(flight, Urgency::kForward, 0, embedding_ ? 0 : plan_.layer_cost(), "forward", embedding_ ? BlockIndex(0) : shape_.block(0));
  if (flight.batch.credit && flight.activation.message.ready.recorded()) stream_.wait(flight.activation.message.ready);
  if (flight.out.reusable_after.recorded()) stream_.wait(flight.out.reusable_after);

  ConstTensorView x;
  if (embedding_) {
    weights.bind(*embedding_);
    co_await embedding_->forward(ctx, slot.embedded);
    weights.leave();
    x = slot.embedded;
  } else {
    x = flight.activation.message.x;
  }
  for (int layer = 0; layer < shape_.layers(); ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (layer > 0 || embedding_) {
      co_await weights.of(shape_.block(layer));
      co_await turn(flight, Urgency::kForward, layer + 1, plan_.layer_cost(), "forward", shape_.block(layer));
    }
    const TensorView y = slot.outputs[at] ? slot.outputs[at].view() : flight.sent.view();
    weights.bind(layers_[at]);
    co_await layers_[at].forward(ctx, slot.frames[at], x, y);
    weights.leave();
    x = y;
  }
  if (!head_) co_return;
  // Loss and the head's share of the gradients are one operation (models/head_block.h), so it comes right before the backward.
  GradientPlace gradient(*this, flight, plan_.model.head_block(), plan::GradientUse::kProjection);
  co_await gradient.gate();
  const bool tied = plan_.model.tied_embeddings;
  co_await weights.of(tied ? BlockIndex(0) : plan_.model.head_block());
  const ConstTensorView projection = weights.flat();
  if (tied) co_await weights.of(plan_.model.head_block());
  co_await turn(flight, Urgency::kForward, shape_.layers() + 1, 3 * plan_.head_cost(), "loss", plan_.model.head_block());
  bind_head(projection);
  if (const auto flat = gradient.flat()) {
    const device::Shape rows{plan_.model.padded_vocabulary, plan_.model.hidden};
    head_->bind_projection_gradient(flat.reshaped(rows));
  }
  const auto totals = memory_.loss_totals.view();
  co_await head_->loss(ctx, slot.head, x, total_of(totals, flight.micro_batch));
  weights.leave();
  gradient.done();
  if (flight.batch.message.last) tell_loss(stream_, ledger_, flight.step, totals, flight.micro_batch.value + 1);
}

task::Task<> Stage::backward_pass(Flight& flight) {
  auto ctx = context(flight, true);
  auto& slot = memory_.slots[static_cast<std::size_t>(flight.slot)];
  const auto input_of = [&](int layer) -> ConstTensorView {
    if (layer > 0) return slot.outputs[static_cast<std::size_t>(layer) - 1];
    return embedding_ ? slot.embedded : flight.activation.message.x;
  };
  WeightsWalk weights(*this, flight, backward_order());
  int side = 0;
  TensorView dy;
  const int last = shape_.layers() - 1;
  if (head_) {
    GradientPlace gradient(*this, flight, plan_.model.head_block(), plan::GradientUse::kBlock);
    co_await gradient.gate();
    co_await weights.of(plan_.model.head_block());
    co_await turn(flight, Urgency::kInputGradient, 0, 0, "gradients", plan_.model.head_block());
    dy = memory_.residual_gradients[side];
    const ConstTensorView x = slot.outputs[static_cast<std::size_t>(last)];
    weights.bind(*head_);
    co_await head_->input_gradient(ctx, slot.head, x, dy);
    weights.leave();
    gradient.bind(*head_);
    co_await head_->weight_gradient(ctx, slot.head, x);
    gradient.done();
  } else {
    dy = flight.gradient.message.dx;
  }
  for (int layer = last; layer >= 0; --layer) {
    const auto at = static_cast<std::size_t>(layer);
    GradientPlace gradient(*this, flight, shape_.block(layer), plan::GradientUse::kBlock);
    co_await gradient.gate();
    co_await weights.of(shape_.block(layer));
    co_await turn(flight, Urgency::kInputGradient, last - layer + 1,
                  plan_.layer_cost() * (plan_.recompute == models::Recompute::kFull ? 2 : 1), "input gradient", shape_.block(layer));
    if (layer == last) {
      if (flight.gradient.message.ready.recorded()) stream_.wait(flight.gradient.message.ready);
      if (flight.gradient_slot.reusable_after.recorded()) stream_.wait(flight.gradient_slot.reusable_after);
    }
    side = 1 - side;
    const TensorView dx = layer == 0 && !embedding_ ? flight.sent_gradient.view() : memory_.residual_gradients[side].view();
    const ConstTensorView x = input_of(layer);
    weights.bind(layers_[at]);
    co_await layers_[at].recompute(ctx, plan_.recompute, slot.frames[at], x);
    co_await layers_[at].input_gradient(ctx, slot.frames[at], memory_.gradients, x, dy, dx);
    weights.leave();
    // More urgent than all but updates: no forward pass, which may write what recompute filled, comes in between.
    co_await turn(flight, Urgency::kWeightGradient, last - layer + 1, plan_.layer_cost(), "weight gradient", shape_.block(layer));
    gradient.bind(layers_[at]);
    co_await layers_[at].weight_gradient(ctx, slot.frames[at], memory_.gradients, x, dy);
    gradient.done();
    dy = dx;
  }
  if (embedding_) {
    GradientPlace gradient(*this, flight, BlockIndex(0), plan::GradientUse::kBlock);
    co_await gradient.gate();
    co_await turn(flight, Urgency::kWeightGradient, shape_.layers() + 1, 0, "weight gradient", BlockIndex(0));
    gradient.bind(*embedding_);
    co_await embedding_->weight_gradient(ctx, dy);
    gradient.done();
  }
  if (source_) stream_.notify([source = source_, step = flight.step](device::StreamContext&) { source.send(MicroBatchComputed{step}); });
}

task::Task<> Stage::evaluation_pass(Flight& flight) {
  auto ctx = context(flight, false);
  WeightsWalk weights(*this, flight, forward_order());
  co_await weights.of(embedding_ ? BlockIndex(0) : shape_.block(0));
  co_await turn(flight, Urgency::kEvaluate, 0, embedding_ ? 0 : plan_.layer_cost(), "evaluate", embedding_ ? BlockIndex(0) : shape_.block(0));
  if (flight.activation.message.ready.recorded()) stream_.wait(flight.activation.message.ready);
  if (flight.out.reusable_after.recorded()) stream_.wait(flight.out.reusable_after);
  int side = 0;
  ConstTensorView x = flight.activation.message.x;
  if (embedding_) {
    weights.bind(*embedding_);
    co_await embedding_->forward(ctx, memory_.evaluation_x[side]);
    weights.leave();
    x = memory_.evaluation_x[side];
  }
  for (int layer = 0; layer < shape_.layers(); ++layer) {
    if (layer > 0 || embedding_) {
      co_await weights.of(shape_.block(layer));
      co_await turn(flight, Urgency::kEvaluate, layer + 1, plan_.layer_cost(), "evaluate", shape_.block(layer));
    }
    side = 1 - side;
    const bool leaves = layer + 1 == shape_.layers() && !head_;
    const TensorView y = leaves ? flight.sent.view() : memory_.evaluation_x[side].view();
    weights.bind(layers_[static_cast<std::size_t>(layer)]);
    co_await layers_[static_cast<std::size_t>(layer)].forward(ctx, memory_.evaluation_frame, x, y);
    weights.leave();
    x = y;
  }
  if (!head_) co_return;
  const bool tied = plan_.model.tied_embeddings;
  co_await weights.of(tied ? BlockIndex(0) : plan_.model.head_block());
  const ConstTensorView projection = weights.flat();
  if (tied) co_await weights.of(plan_.model.head_block());
  co_await turn(flight, Urgency::kEvaluate, shape_.layers() + 1, plan_.head_cost(), "evaluate", plan_.model.head_block());
  bind_head(projection);
  const auto totals = memory_.evaluation_totals.view();
  co_await head_->loss(ctx, memory_.evaluation_head, x, total_of(totals, flight.micro_batch));
  weights.leave();
  if (flight.batch.message.last) tell_evaluation(stream_, ledger_, flight.step, totals, flight.micro_batch.value + 1);
}

// All that this replica computes of the step is enqueued: its sums are complete, be they of no micro-batch at all. As if it had computed one, it
// has this step's weights before others may write the next ones.
task::Task<> Stage::close_pass(Flight& flight, std::int32_t count) {
  WeightsWalk weights(*this, flight, forward_order());
  for (const BlockIndex block : forward_order()) co_await weights.of(block);
  co_await turn(flight, Urgency::kWeightGradient, 0, 0, "close step", BlockIndex(-1));
  weights.leave();
  if (head_) tell_loss(stream_, ledger_, flight.step, memory_.loss_totals.view(), count);
  if (head_ && plan_.model.tied_embeddings) tell_gradient(flight.step, BlockIndex(0), plan::GradientUse::kProjection);
  for (std::int32_t block = last_block().value; block >= first_block().value; --block) {
    tell_gradient(flight.step, BlockIndex(block), plan::GradientUse::kBlock);
  }
}

}  // namespace troupe::actors
