#include "models/transformer_block.h"

#include <cmath>
#include <numbers>

namespace troupe::models {
namespace {

constexpr std::int32_t kAttentionDropout = 1, kMlpDropout = 2, kProbabilityDropout = 3;

int as_int(std::int64_t value) { return static_cast<int>(value); }

}  // namespace

TransformerFrame TransformerFrame::keep_all(const ModelConfig& c, const Geometry& g, device::Allocator& from,
                                            const std::string& term) {
  return keep(Recompute::kNone, c, g, from, term, {});
}

TransformerFrame TransformerFrame::keep(Recompute recompute, const ModelConfig& c, const Geometry& g, device::Allocator& from,
                                        const std::string& term, const TransformerFrame& workspace) {
  const std::int64_t n = g.rows();
  const bool products = recompute != Recompute::kFull;    // kept: what is dear to compute
  const bool all = recompute == Recompute::kNone;
  const auto take = [&](bool kept, const Tensor& shared, DType type, Shape shape) {
    return kept ? from.take(term, type, shape) : shared;
  };
  const Tensor none;
  TransformerFrame f;
  f.norm1 = take(all, workspace.norm1, g.compute, {n, c.hidden});
  if (c.layer_norm()) f.mean1 = take(all, workspace.mean1, g.sums(), {n});
  f.inverse1 = take(all, workspace.inverse1, g.sums(), {n});
  if (c.qk_norm()) {
    f.raw_qkv = take(products, workspace.raw_qkv, g.compute, {n, c.qkv_width()});
    f.qk_inverse = take(products, workspace.qk_inverse, g.sums(), {n, c.heads + c.kv_heads});
  }
  f.qkv = take(products, workspace.qkv, g.compute, {n, c.qkv_width()});
  f.log_sum_exp = take(products, workspace.log_sum_exp, g.sums(), {g.batch, c.heads, g.seq_len});
  f.attention = take(products, workspace.attention, g.compute, {n, c.attention_width()});
  f.middle = take(products, workspace.middle, g.compute, {n, c.hidden});
  f.norm2 = take(all, workspace.norm2, g.compute, {n, c.hidden});
  if (c.layer_norm()) f.mean2 = take(all, workspace.mean2, g.sums(), {n});
  f.inverse2 = take(all, workspace.inverse2, g.sums(), {n});
  f.up = take(products, workspace.up, g.compute, {n, c.up_width()});
  f.hidden = take(all, workspace.hidden, g.compute, {n, c.intermediate});
  if (c.dropout > 0) f.branch = take(!workspace.branch, workspace.branch, g.compute, {n, c.hidden});
  return f;
}

TransformerGradientFrame TransformerGradientFrame::take(const ModelConfig& c, const Geometry& g, device::Allocator& from,
                                                        const std::string& term) {
  const std::int64_t n = g.rows();
  const auto make = [&](std::int64_t width) { return from.take(term, g.compute, {n, width}); };
  TransformerGradientFrame f;
  f.dhidden = make(c.intermediate);
  f.dup = make(c.up_width());
  f.dnorm2 = make(c.hidden);
  f.dmiddle = make(c.hidden);
  f.dattention = make(c.attention_width());
  f.dqkv = make(c.qkv_width());
  if (c.qk_norm()) f.draw_qkv = make(c.qkv_width());
  f.dnorm1 = make(c.hidden);
  if (c.dropout > 0) {
    f.dbranch = make(c.hidden);
    f.dbranch1 = make(c.hidden);
  }
  return f;
}

void write_inverse_frequencies(const ModelConfig& c, TensorView inverse_frequency) {
  // In float, operation by operation as the reference library does, so that angles at far positions agree.
  float* out = inverse_frequency.data<float>();
  const auto& s = c.rope_scaling;
  for (std::int64_t i = 0; i < c.head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(c.head_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(c.rope_theta), exponent);
    if (s.factor != 1) {
      const double wave_length = 2 * std::numbers::pi / frequency;
      const double original = static_cast<double>(s.original_max_seq_len);
      const double low_wave = original / s.low_frequency_factor, high_wave = original / s.high_frequency_factor;
      if (wave_length > low_wave) {
        frequency = static_cast<float>(frequency / s.factor);
      } else if (wave_length > high_wave) {
        const double smooth =
            (original / wave_length - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor);
        frequency = static_cast<float>((1 - smooth) * frequency / s.factor + smooth * frequency);
      }
    }
    out[i] = frequency;
  }
}

void TransformerBlock::norm(Context& ctx, Role weight, Role bias, ConstTensorView x, TensorView y, TensorView mean,
                            TensorView inverse) {
  const auto epsilon = static_cast<float>(config_.norm_epsilon);
  if (config_.layer_norm()) {
    ctx.kernels.layernorm(ctx.stream, {y, x, weights_[weight], weights_[bias], mean, inverse, epsilon});
  } else {
    ctx.kernels.rmsnorm(ctx.stream, {y, x, weights_[weight], inverse, epsilon});
  }
}

void TransformerBlock::norm_input_gradient(Context& ctx, Role weight, ConstTensorView x, ConstTensorView mean,
                                           ConstTensorView inverse, ConstTensorView dy, ConstTensorView residual, TensorView dx) {
  if (config_.layer_norm()) {
    ctx.kernels.layernorm_input_gradient(ctx.stream, {dx, dy, x, weights_[weight], mean, inverse, residual});
  } else {
    ctx.kernels.rmsnorm_input_gradient(ctx.stream, {dx, dy, x, weights_[weight], inverse, residual});
  }
}

void TransformerBlock::norm_weight_gradient(Context& ctx, Role weight, Role bias, ConstTensorView x, ConstTensorView mean,
                                            ConstTensorView inverse, ConstTensorView dy) {
  if (config_.layer_norm()) {
    ctx.kernels.layernorm_weight_gradient(ctx.stream, {gradients_[weight], gradients_[bias], dy, x, mean, inverse});
  } else {
    ctx.kernels.rmsnorm_weight_gradient(ctx.stream, {gradients_[weight], dy, x, inverse});
  }
}

kernels::Dropout TransformerBlock::dropout(const Context& ctx, ConstTensorView x, ConstTensorView residual, TensorView y,
                                           std::int32_t use) const {
  return {.y = y, .x = x, .residual = residual, .sample_ids = ctx.inputs->sample_ids, .rows_per_sample = ctx.geometry.seq_len,
          .key = ctx.dropout_key(block_, use), .probability = static_cast<float>(config_.dropout)};
}

kernels::AttentionDropout TransformerBlock::probability_dropout(const Context& ctx) const {
  if (!drops(ctx)) return {};
  return {.sample_ids = ctx.inputs->sample_ids, .key = ctx.dropout_key(block_, kProbabilityDropout),
          .probability = static_cast<float>(config_.dropout)};
}

void TransformerBlock::attend(Context& ctx, const TransformerFrame& f) {
  const int heads = as_int(config_.heads), kv_heads = as_int(config_.kv_heads);
  const auto layout = config_.weight_layout();
  ctx.kernels.matmul(ctx.stream, {config_.qk_norm() ? f.raw_qkv : f.qkv, f.norm1, weights_[Role::kQkv], weights_[Role::kQkvBias],
                                  {}, layout});
  if (config_.qk_norm()) {
    ctx.kernels.qk_norm(ctx.stream, {f.qkv, f.raw_qkv, weights_[Role::kQNorm], weights_[Role::kKNorm], f.qk_inverse, heads,
                                     kv_heads, static_cast<float>(config_.norm_epsilon)});
  }
  if (inverse_frequency_) {
    ctx.kernels.rope(ctx.stream, {f.qkv, ctx.inputs->positions, inverse_frequency_, heads, kv_heads, false});
  }
  const auto& g = ctx.geometry;
  ctx.kernels.attention(ctx.stream, {f.attention.view().reshaped({g.batch, g.seq_len, config_.attention_width()}), f.log_sum_exp,
                                     f.qkv.view().reshaped({g.batch, g.seq_len, config_.qkv_width()}),
                                     ctx.inputs->document_start.view().reshaped({g.batch, g.seq_len}), heads, kv_heads,
                                     1.0f / std::sqrt(static_cast<float>(config_.head_dim)), probability_dropout(ctx)});
}

void TransformerBlock::activate(Context& ctx, const TransformerFrame& f) {
  if (config_.gated_mlp()) {
    ctx.kernels.swiglu(ctx.stream, {f.hidden, f.up});
  } else {
    ctx.kernels.gelu(ctx.stream, {f.hidden, f.up, kernels::GeluKind::kTanh});
  }
}

void TransformerBlock::residual_branch(Context& ctx, const TransformerFrame& f, Role weight, Role bias, ConstTensorView in,
                                       ConstTensorView x, TensorView y, std::int32_t dropout_use) {
  const auto layout = config_.weight_layout();
  if (drops(ctx)) {
    ctx.kernels.matmul(ctx.stream, {f.branch, in, weights_[weight], weights_[bias], {}, layout});
    ctx.kernels.dropout(ctx.stream, dropout(ctx, f.branch, x, y, dropout_use));
  } else {
    ctx.kernels.matmul(ctx.stream, {y, in, weights_[weight], weights_[bias], x, layout});
  }
}

task::Task<> TransformerBlock::forward(Context& ctx, const TransformerFrame& f, ConstTensorView x, TensorView y) {
  norm(ctx, Role::kNorm1, Role::kNorm1Bias, x, f.norm1, f.mean1, f.inverse1);
  attend(ctx, f);
  residual_branch(ctx, f, Role::kOut, Role::kOutBias, f.attention, x, f.middle, kAttentionDropout);
  norm(ctx, Role::kNorm2, Role::kNorm2Bias, f.middle, f.norm2, f.mean2, f.inverse2);
  ctx.kernels.matmul(ctx.stream, {f.up, f.norm2, weights_[Role::kUp], weights_[Role::kUpBias], {}, config_.weight_layout()});
  activate(ctx, f);
  residual_branch(ctx, f, Role::kDown, Role::kDownBias, f.hidden, f.middle, y, kMlpDropout);
  co_return;
}

task::Task<> TransformerBlock::recompute(Context& ctx, Recompute recompute, const TransformerFrame& f, ConstTensorView x) {
  if (recompute == Recompute::kNone) co_return;
  norm(ctx, Role::kNorm1, Role::kNorm1Bias, x, f.norm1, f.mean1, f.inverse1);
  if (recompute == Recompute::kFull) {
    attend(ctx, f);
    residual_branch(ctx, f, Role::kOut, Role::kOutBias, f.attention, x, f.middle, kAttentionDropout);
  }
  norm(ctx, Role::kNorm2, Role::kNorm2Bias, f.middle, f.norm2, f.mean2, f.inverse2);
  if (recompute == Recompute::kFull) {
    ctx.kernels.matmul(ctx.stream, {f.up, f.norm2, weights_[Role::kUp], weights_[Role::kUpBias], {}, config_.weight_layout()});
  }
  activate(ctx, f);
}

task::Task<> TransformerBlock::input_gradient(Context& ctx, const TransformerFrame& f, const TransformerGradientFrame& d,
                                              ConstTensorView x, ConstTensorView dy, TensorView dx) {
  const auto layout = config_.weight_layout();
  const int heads = as_int(config_.heads), kv_heads = as_int(config_.kv_heads);
  const auto& g = ctx.geometry;

  ConstTensorView dbranch = dy;
  if (drops(ctx)) {
    ctx.kernels.dropout(ctx.stream, dropout(ctx, dy, {}, d.dbranch, kMlpDropout));
    dbranch = d.dbranch;
  }
  ctx.kernels.matmul_input_gradient(ctx.stream, {d.dhidden, dbranch, weights_[Role::kDown], layout});
  if (config_.gated_mlp()) {
    ctx.kernels.swiglu_input_gradient(ctx.stream, {d.dup, d.dhidden, f.up});
  } else {
    ctx.kernels.gelu_input_gradient(ctx.stream, {d.dup, d.dhidden, f.up, kernels::GeluKind::kTanh});
  }
  ctx.kernels.matmul_input_gradient(ctx.stream, {d.dnorm2, d.dup, weights_[Role::kUp], layout});
  norm_input_gradient(ctx, Role::kNorm2, f.middle, f.mean2, f.inverse2, d.dnorm2, dy, d.dmiddle);

  ConstTensorView dbranch1 = d.dmiddle;
  if (drops(ctx)) {
    ctx.kernels.dropout(ctx.stream, dropout(ctx, d.dmiddle, {}, d.dbranch1, kAttentionDropout));
    dbranch1 = d.dbranch1;
  }
  ctx.kernels.matmul_input_gradient(ctx.stream, {d.dattention, dbranch1, weights_[Role::kOut], layout});
  const Shape heads_shape{g.batch, g.seq_len, config_.attention_width()}, qkv_shape{g.batch, g.seq_len, config_.qkv_width()};
  ctx.kernels.attention_input_gradient(
      ctx.stream, {d.dqkv.view().reshaped(qkv_shape), d.dattention.view().reshaped(heads_shape),
                   f.attention.view().reshaped(heads_shape), f.qkv.view().reshaped(qkv_shape), f.log_sum_exp,
                   ctx.inputs->document_start.view().reshaped({g.batch, g.seq_len}), heads, kv_heads,
                   1.0f / std::sqrt(static_cast<float>(config_.head_dim)), probability_dropout(ctx)});
  if (inverse_frequency_) {
    ctx.kernels.rope(ctx.stream, {d.dqkv, ctx.inputs->positions, inverse_frequency_, heads, kv_heads, true});
  }
  if (config_.qk_norm()) {
    ctx.kernels.qk_norm_input_gradient(ctx.stream, {d.draw_qkv, d.dqkv, f.raw_qkv, weights_[Role::kQNorm], weights_[Role::kKNorm],
                                                    f.qk_inverse, heads, kv_heads});
  }
  ctx.kernels.matmul_input_gradient(ctx.stream,
                                    {d.dnorm1, config_.qk_norm() ? d.draw_qkv : d.dqkv, weights_[Role::kQkv], layout});
  norm_input_gradient(ctx, Role::kNorm1, x, f.mean1, f.inverse1, d.dnorm1, d.dmiddle, dx);
  co_return;
}

task::Task<> TransformerBlock::weight_gradient(Context& ctx, const TransformerFrame& f, const TransformerGradientFrame& d,
                                               ConstTensorView x, ConstTensorView dy) {
  const auto layout = config_.weight_layout();
  const auto linear = [&](Role weight, Role bias, ConstTensorView dout, ConstTensorView in) {
    ctx.kernels.matmul_weight_gradient(ctx.stream, {gradients_[weight], gradients_[bias], dout, in, layout});
  };
  linear(Role::kDown, Role::kDownBias, drops(ctx) ? ConstTensorView(d.dbranch) : dy, f.hidden);
  linear(Role::kUp, Role::kUpBias, d.dup, f.norm2);
  norm_weight_gradient(ctx, Role::kNorm2, Role::kNorm2Bias, f.middle, f.mean2, f.inverse2, d.dnorm2);
  linear(Role::kOut, Role::kOutBias, drops(ctx) ? d.dbranch1 : d.dmiddle, f.attention);
  if (config_.qk_norm()) {
    ctx.kernels.qk_norm_weight_gradient(ctx.stream, {gradients_[Role::kQNorm], gradients_[Role::kKNorm], d.dqkv, f.raw_qkv,
                                                     f.qk_inverse, as_int(config_.heads), as_int(config_.kv_heads)});
  }
  linear(Role::kQkv, Role::kQkvBias, config_.qk_norm() ? d.draw_qkv : d.dqkv, f.norm1);
  norm_weight_gradient(ctx, Role::kNorm1, Role::kNorm1Bias, x, f.mean1, f.inverse1, d.dnorm1);
  co_return;
}

}  // namespace troupe::models
