// Block 0: token embedding, learned positions where the family has them, dropout.
#pragma once

#include "models/context.h"
#include "models/parameters.h"

namespace troupe::models {

class EmbeddingBlock {
 public:
  EmbeddingBlock(const ModelConfig& config, BlockWeights weights, BlockGradients gradients)
      : config_(config), weights_(weights), gradients_(gradients) {}

  // From now on: where weights and gradient sums lie. Kernels get the views when they are enqueued.
  void bind(BlockWeights weights) { weights_ = weights; }
  void bind(BlockGradients gradients) { gradients_ = gradients; }

  task::Task<> forward(Context& context, TensorView y);                       // y [N, C]
  // Accumulates; `dy` [N, C] may be overwritten (by the dropout's backward).
  task::Task<> weight_gradient(Context& context, TensorView dy);

 private:
  const ModelConfig& config_;
  BlockWeights weights_;
  BlockGradients gradients_;
};

}  // namespace troupe::models
