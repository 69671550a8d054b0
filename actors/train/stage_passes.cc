// The passes of a stage: what is enqueued for one micro-batch, a turn per block and kind of work.
#include "actors/train/stage_flight.h"
#include "models/flops.h"

namespace troupe::actors {

using device::ConstTensorView, device::TensorView;
using task::Urgency;

namespace {

// Where a micro-batch's loss sum and token count go: [2]. (Not inside a co_await: g++ 12 cannot keep the braces' array there.)
TensorView total_of(TensorView totals, MicroBatchId micro_batch) {
  return totals.rows(micro_batch.value, micro_batch.value + 1).reshaped({2});
}

// When the stream gets there: the totals of all micro-batches, folded in their order.
template <class Measured>
void tell_total(device::Stream& stream, const actor::Ref& ledger, StepId step, TensorView totals) {
  stream.notify([ledger, totals, step](device::StreamContext&) {
    LossTotal sum;
    const double* values = totals.data<double>();
    for (std::int64_t i = 0; i < totals.shape()[0]; ++i) {
      sum.loss += values[2 * i];
      sum.tokens += values[2 * i + 1];
    }
    ledger.send(Measured{step, sum});
  });
}

}  // namespace

models::Context Stage::context(const Flight& flight, bool training) const {
  return {.kernels = kernels_, .stream = stream_, .geometry = plan_.geometry, .inputs = &flight.batch.message.inputs, .seed = seed_,
          .step = flight.step, .training = training};
}

task::Turn Stage::turn(const Flight& flight, Urgency urgency, int position, double cost) const {
  return {.key = {.urgency = urgency, .step = flight.step.value, .micro_batch = flight.micro_batch.value,
                  .position = shape_.index.value * 1024 + position},
          .cost = cost};
}

// Forward FLOPs of one layer and of the head; a backward half costs as much as the forward.
double Stage::layer_cost() const {
  const auto& m = plan_.model;
  const auto rows = static_cast<double>(plan_.geometry.rows());
  return rows * (2.0 * static_cast<double>(m.hidden * (m.qkv_width() + m.attention_width() + m.up_width() + m.intermediate)) +
                 2.0 * static_cast<double>(plan_.geometry.seq_len * m.attention_width()));
}

double Stage::head_cost() const {
  return 2.0 * static_cast<double>(plan_.geometry.rows() * plan_.model.padded_vocabulary * plan_.model.hidden);
}

task::Task<> Stage::forward_pass(Flight& flight) {
  auto ctx = context(flight, true);
  auto& slot = memory_.slots[static_cast<std::size_t>(flight.slot)];
  co_await turn(flight, Urgency::kForward, 0, embedding_ ? 0 : layer_cost());
  if (flight.batch.credit && flight.activation.message.ready.recorded()) stream_.wait(flight.activation.message.ready);
  if (flight.out.reusable_after.recorded()) stream_.wait(flight.out.reusable_after);

  ConstTensorView x;
  if (embedding_) {
    co_await embedding_->forward(ctx, slot.embedded);
    x = slot.embedded;
  } else {
    x = flight.activation.message.x;
  }
  for (int layer = 0; layer < shape_.layers(); ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (layer > 0 || embedding_) co_await turn(flight, Urgency::kForward, layer + 1, layer_cost());
    const TensorView y = slot.outputs[at] ? slot.outputs[at].view() : flight.sent.view();
    co_await layers_[at].forward(ctx, slot.frames[at], x, y);
    x = y;
  }
  if (!head_) co_return;
  // Loss and the head's share of the gradients are one operation (models/head_block.h), so it comes right before the backward.
  co_await turn(flight, Urgency::kForward, shape_.layers() + 1, 3 * head_cost());
  const auto totals = memory_.loss_totals.view();
  co_await head_->loss(ctx, slot.head, x, total_of(totals, flight.micro_batch));
  if (flight.micro_batch.value == plan_.micro_batches - 1) {
    tell_total<StepLossMeasured>(stream_, ledger_, flight.step, totals);
  }
}

// Of the blocks of this stage, in order. What the shard enqueues comes after the gradient on the one compute stream.
void Stage::gradient_done(const Flight& flight, std::size_t block) const {
  if (flight.micro_batch.value != plan_.micro_batches - 1) return;
  shards_[block].send(BlockGradientReady{flight.step});
  if (head_ && tied_ && block + 1 == shards_.size()) tied_.send(BlockGradientReady{flight.step});
}

task::Task<> Stage::backward_pass(Flight& flight) {
  auto ctx = context(flight, true);
  auto& slot = memory_.slots[static_cast<std::size_t>(flight.slot)];
  const auto input_of = [&](int layer) -> ConstTensorView {
    if (layer > 0) return slot.outputs[static_cast<std::size_t>(layer) - 1];
    return embedding_ ? slot.embedded : flight.activation.message.x;
  };
  int side = 0;
  TensorView dy;
  const int last = shape_.layers() - 1;
  if (head_) {
    co_await turn(flight, Urgency::kInputGradient, 0, 0);
    dy = memory_.residual_gradients[side];
    const ConstTensorView x = slot.outputs[static_cast<std::size_t>(last)];
    co_await head_->input_gradient(ctx, slot.head, x, dy);
    co_await head_->weight_gradient(ctx, slot.head, x);
    gradient_done(flight, shards_.size() - 1);
  } else {
    dy = flight.gradient.message.dx;
  }
  for (int layer = last; layer >= 0; --layer) {
    const auto at = static_cast<std::size_t>(layer);
    co_await turn(flight, Urgency::kInputGradient, last - layer + 1,
                  layer_cost() * (plan_.recompute == models::Recompute::kFull ? 2 : 1));
    if (layer == last) {
      if (flight.gradient.message.ready.recorded()) stream_.wait(flight.gradient.message.ready);
      if (flight.gradient_slot.reusable_after.recorded()) stream_.wait(flight.gradient_slot.reusable_after);
    }
    side = 1 - side;
    const TensorView dx = layer == 0 && !embedding_ ? flight.sent_gradient.view() : memory_.residual_gradients[side].view();
    const ConstTensorView x = input_of(layer);
    co_await layers_[at].recompute(ctx, plan_.recompute, slot.frames[at], x);
    co_await layers_[at].input_gradient(ctx, slot.frames[at], memory_.gradients, x, dy, dx);
    // More urgent than all but updates: no forward pass, which may write what recompute filled, comes in between.
    co_await turn(flight, Urgency::kWeightGradient, last - layer + 1, layer_cost());
    co_await layers_[at].weight_gradient(ctx, slot.frames[at], memory_.gradients, x, dy);
    gradient_done(flight, at + (embedding_ ? 1 : 0));
    dy = dx;
  }
  if (embedding_) {
    co_await turn(flight, Urgency::kWeightGradient, shape_.layers() + 1, 0);
    co_await embedding_->weight_gradient(ctx, dy);
    gradient_done(flight, 0);
  }
}

task::Task<> Stage::evaluation_pass(Flight& flight) {
  auto ctx = context(flight, false);
  co_await turn(flight, Urgency::kEvaluate, 0, embedding_ ? 0 : layer_cost());
  if (flight.activation.message.ready.recorded()) stream_.wait(flight.activation.message.ready);
  if (flight.out.reusable_after.recorded()) stream_.wait(flight.out.reusable_after);
  int side = 0;
  ConstTensorView x = flight.activation.message.x;
  if (embedding_) {
    co_await embedding_->forward(ctx, memory_.evaluation_x[side]);
    x = memory_.evaluation_x[side];
  }
  for (int layer = 0; layer < shape_.layers(); ++layer) {
    if (layer > 0 || embedding_) co_await turn(flight, Urgency::kEvaluate, layer + 1, layer_cost());
    side = 1 - side;
    const bool leaves = layer + 1 == shape_.layers() && !head_;
    const TensorView y = leaves ? flight.sent.view() : memory_.evaluation_x[side].view();
    co_await layers_[static_cast<std::size_t>(layer)].forward(ctx, memory_.evaluation_frame, x, y);
    x = y;
  }
  if (!head_) co_return;
  co_await turn(flight, Urgency::kEvaluate, shape_.layers() + 1, head_cost());
  const auto totals = memory_.evaluation_totals.view();
  co_await head_->loss(ctx, memory_.evaluation_head, x, total_of(totals, flight.micro_batch));
  if (flight.micro_batch.value == plan_.evaluation_batches - 1) {
    tell_total<EvaluationMeasured>(stream_, ledger_, flight.step, totals);
  }
}

}  // namespace troupe::actors
