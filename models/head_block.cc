#include "models/head_block.h"

namespace troupe::models {

HeadFrame HeadFrame::take(const ModelConfig& c, const Geometry& g, bool training, device::Allocator& from,
                          const std::string& term) {
  const std::int64_t n = g.rows();
  HeadFrame f;
  f.norm = from.take(term, g.compute, {n, c.hidden});
  if (c.layer_norm()) f.mean = from.take(term, g.sums(), {n});
  f.inverse = from.take(term, g.sums(), {n});
  f.loss = from.take(term, g.sums(), {n});
  if (training) f.dnorm = from.take(term, g.compute, {n, c.hidden});
  return f;
}

void HeadBlock::norm(Context& ctx, const HeadFrame& f, ConstTensorView x) {
  const auto epsilon = static_cast<float>(config_.norm_epsilon);
  if (config_.layer_norm()) {
    ctx.kernels.layernorm(ctx.stream,
                          {f.norm, x, weights_[Role::kNorm1], weights_[Role::kNorm1Bias], f.mean, f.inverse, epsilon});
  } else {
    ctx.kernels.rmsnorm(ctx.stream, {f.norm, x, weights_[Role::kNorm1], f.inverse, epsilon});
  }
}

task::Task<> HeadBlock::loss(Context& ctx, const HeadFrame& f, ConstTensorView x, TensorView total) {
  norm(ctx, f, x);
  ctx.kernels.cross_entropy_head(ctx.stream, {.loss = f.loss,
                                              .x = f.norm,
                                              .weight = projection_,
                                              .targets = ctx.inputs->targets,
                                              .vocabulary = config_.vocabulary,
                                              .dx = ctx.training ? TensorView(f.dnorm) : TensorView(),
                                              .dweight = ctx.training ? projection_gradient_ : TensorView(),
                                              .chunk_tokens = chunk_tokens_});
  ctx.kernels.loss_sum(ctx.stream, {total, f.loss, ctx.inputs->targets});
  co_return;
}

task::Task<> HeadBlock::input_gradient(Context& ctx, const HeadFrame& f, ConstTensorView x, TensorView dx) {
  if (config_.layer_norm()) {
    ctx.kernels.layernorm_input_gradient(ctx.stream, {dx, f.dnorm, x, weights_[Role::kNorm1], f.mean, f.inverse, {}});
  } else {
    ctx.kernels.rmsnorm_input_gradient(ctx.stream, {dx, f.dnorm, x, weights_[Role::kNorm1], f.inverse, {}});
  }
  co_return;
}

task::Task<> HeadBlock::weight_gradient(Context& ctx, const HeadFrame& f, ConstTensorView x) {
  if (config_.layer_norm()) {
    ctx.kernels.layernorm_weight_gradient(
        ctx.stream, {gradients_[Role::kNorm1], gradients_[Role::kNorm1Bias], f.dnorm, x, f.mean, f.inverse});
  } else {
    ctx.kernels.rmsnorm_weight_gradient(ctx.stream, {gradients_[Role::kNorm1], f.dnorm, x, f.inverse});
  }
  co_return;
}

task::Task<> HeadBlock::logits(Context& ctx, const HeadFrame& f, ConstTensorView x, TensorView logits) {
  norm(ctx, f, x);
  ctx.kernels.logits(ctx.stream, {logits, f.norm, projection_});
  co_return;
}

}  // namespace troupe::models
