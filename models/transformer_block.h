// Blocks 1..L: norm, attention, residual, norm, MLP, residual. Forward, input gradient and weight gradient are separate
// operations; the first leaves in a frame what the second reads, the second leaves in a gradient frame what the third reads.
//
// Recompute decides which of a frame's tensors are kept per micro-batch and which are shared by all blocks of a stage and computed
// again before the input gradient: the same kernels on the same inputs, so the bits are the same.
#pragma once

#include "models/context.h"
#include "models/parameters.h"

namespace troupe::models {

enum class Recompute {
  kNone,       // keep all
  kSelective,  // keep what matrix products and attention gave; norms and the activation again
  kFull,       // keep the block's input only
};

// What forward leaves for backward. [N, ...] of the compute type; statistics in Geometry::sums().
struct TransformerFrame {
  Tensor norm1, mean1, inverse1;   // inverse1: inverse rms or inverse standard deviation; mean1 with LayerNorm only
  Tensor raw_qkv, qk_inverse;      // before the norm of q and k, where the family has one
  Tensor qkv, log_sum_exp, attention;
  Tensor middle;                   // after the first residual
  Tensor norm2, mean2, inverse2;
  Tensor up, hidden;
  Tensor branch;                   // a residual branch before dropout; shared, only with dropout

  // Takes from `from` what `recompute` keeps; the rest is shared from `workspace`, a frame made with `keep_all`.
  static TransformerFrame keep_all(const ModelConfig& config, const Geometry& geometry, device::Allocator& from,
                                   const std::string& term);
  static TransformerFrame keep(Recompute recompute, const ModelConfig& config, const Geometry& geometry, device::Allocator& from,
                               const std::string& term, const TransformerFrame& workspace);
};

// What the input gradient leaves for the weight gradient, besides dy itself.
struct TransformerGradientFrame {
  Tensor dhidden;                  // [N, I]   scratch
  Tensor dup;                      // [N, I or 2I]
  Tensor dnorm2;                   // [N, C]
  Tensor dmiddle;                  // [N, C]
  Tensor dattention;               // [N, H D] scratch
  Tensor dqkv;                     // [N, (H + 2G) D]  after the norm of q and k
  Tensor draw_qkv;                 // [N, (H + 2G) D]  before it; only with that norm
  Tensor dnorm1;                   // [N, C]
  Tensor dbranch;                  // [N, C]   only with dropout: of the branch that dy went through
  Tensor dbranch1;                 // [N, C]   the same for the attention branch

  static TransformerGradientFrame take(const ModelConfig& config, const Geometry& geometry, device::Allocator& from,
                                       const std::string& term);
};

// inverse_frequency[i] = theta^(-2i / D), stretched as Llama 3.1 does. fp32 [D / 2].
void write_inverse_frequencies(const ModelConfig& config, TensorView inverse_frequency);

class TransformerBlock {
 public:
  // `inverse_frequency` is empty for learned positions.
  TransformerBlock(const ModelConfig& config, BlockIndex block, BlockWeights weights, BlockGradients gradients,
                   ConstTensorView inverse_frequency)
      : config_(config), block_(block), weights_(weights), gradients_(gradients), inverse_frequency_(inverse_frequency) {}

  // From now on: where weights and gradient sums lie. Kernels get the views when they are enqueued.
  void bind(BlockWeights weights) { weights_ = weights; }
  void bind(BlockGradients gradients) { gradients_ = gradients; }

  task::Task<> forward(Context& context, const TransformerFrame& frame, ConstTensorView x, TensorView y);
  // Fills again what `recompute` did not keep.
  task::Task<> recompute(Context& context, Recompute recompute, const TransformerFrame& frame, ConstTensorView x);
  // dx may not alias dy.
  task::Task<> input_gradient(Context& context, const TransformerFrame& frame, const TransformerGradientFrame& gradients,
                              ConstTensorView x, ConstTensorView dy, TensorView dx);
  task::Task<> weight_gradient(Context& context, const TransformerFrame& frame, const TransformerGradientFrame& gradients,
                               ConstTensorView x, ConstTensorView dy);

 private:
  void norm(Context& context, Role weight, Role bias, ConstTensorView x, TensorView y, TensorView mean, TensorView inverse);
  void norm_input_gradient(Context& context, Role weight, ConstTensorView x, ConstTensorView mean, ConstTensorView inverse,
                           ConstTensorView dy, ConstTensorView residual, TensorView dx);
  void norm_weight_gradient(Context& context, Role weight, Role bias, ConstTensorView x, ConstTensorView mean,
                            ConstTensorView inverse, ConstTensorView dy);
  void attend(Context& context, const TransformerFrame& frame);   // norm1 -> attention
  void activate(Context& context, const TransformerFrame& frame);  // up -> hidden
  // y = x + linear(in), through dropout where it is on.
  void residual_branch(Context& context, const TransformerFrame& frame, Role weight, Role bias, ConstTensorView in,
                       ConstTensorView x, TensorView y, std::int32_t dropout_use);
  bool drops(const Context& context) const { return context.training && config_.dropout > 0; }
  kernels::Dropout dropout(const Context& context, ConstTensorView x, ConstTensorView residual, TensorView y,
                           std::int32_t use) const;
  kernels::AttentionDropout probability_dropout(const Context& context) const;

  const ModelConfig& config_;
  BlockIndex block_;
  BlockWeights weights_;
  BlockGradients gradients_;
  ConstTensorView inverse_frequency_;
};

}  // namespace troupe::models
