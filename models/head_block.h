// Block L + 1: final norm, the projection to the vocabulary, the loss.
//
// Logits never exist for more than a chunk of tokens, so the loss and the gradients of the projection are one operation
// (kernels/cross_entropy.h): what a separate weight gradient would read is gone by then. The norm's two gradients are separate.
#pragma once

#include "models/context.h"
#include "models/parameters.h"

namespace troupe::models {

struct HeadFrame {
  Tensor norm, mean, inverse;      // [N, C], [N], [N]
  Tensor loss;                     // [N] per token, 0 where masked
  Tensor dnorm;                    // [N, C]; absent in a frame for evaluation

  static HeadFrame take(const ModelConfig& config, const Geometry& geometry, bool training, device::Allocator& from,
                        const std::string& term);
};

class HeadBlock {
 public:
  // `projection` [Vp, C] and its gradient sum: the head's own, or the embedding's and the sum kept for its use here.
  HeadBlock(const ModelConfig& config, BlockWeights weights, BlockGradients gradients, ConstTensorView projection,
            TensorView projection_gradient, std::int64_t chunk_tokens)
      : config_(config), weights_(weights), gradients_(gradients), projection_(projection),
        projection_gradient_(projection_gradient), chunk_tokens_(chunk_tokens) {}

  // From now on: where weights and gradient sums lie. Kernels get the views when they are enqueued.
  void bind(BlockWeights weights) { weights_ = weights; }
  void bind(BlockGradients gradients) { gradients_ = gradients; }
  void bind_projection(ConstTensorView projection) { projection_ = projection; }
  void bind_projection_gradient(TensorView gradient) { projection_gradient_ = gradient; }

  // Loss of x [N, C]; in training also dnorm and the projection's gradient, of the *sum* of losses. `total` [2] fp64 gets the sum
  // of losses and the number of unmasked tokens, for the host to read.
  task::Task<> loss(Context& context, const HeadFrame& frame, ConstTensorView x, TensorView total);
  task::Task<> input_gradient(Context& context, const HeadFrame& frame, ConstTensorView x, TensorView dx);
  task::Task<> weight_gradient(Context& context, const HeadFrame& frame, ConstTensorView x);
  // logits [N, Vp] fp32 of all rows: generation and tests.
  task::Task<> logits(Context& context, const HeadFrame& frame, ConstTensorView x, TensorView logits);

 private:
  void norm(Context& context, const HeadFrame& frame, ConstTensorView x);

  const ModelConfig& config_;
  BlockWeights weights_;
  BlockGradients gradients_;
  ConstTensorView projection_;
  TensorView projection_gradient_;
  std::int64_t chunk_tokens_;
};

}  // namespace troupe::models
