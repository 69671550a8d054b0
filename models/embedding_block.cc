#include "models/embedding_block.h"

namespace troupe::models {
namespace {

constexpr std::int32_t kEmbeddingDropout = 0;

kernels::Dropout dropout(const ModelConfig& config, const Context& ctx, TensorView y) {
  return {.y = y, .x = y, .residual = {}, .sample_ids = ctx.inputs->sample_ids, .rows_per_sample = ctx.geometry.seq_len,
          .key = ctx.dropout_key(BlockIndex(0), kEmbeddingDropout), .probability = static_cast<float>(config.dropout)};
}

}  // namespace

task::Task<> EmbeddingBlock::forward(Context& ctx, TensorView y) {
  const bool learned = config_.learned_positions();
  ctx.kernels.embedding(ctx.stream, {.y = y,
                                     .tokens = ctx.inputs->tokens,
                                     .weight = weights_[Role::kTokenEmbedding],
                                     .positions = learned ? ConstTensorView(ctx.inputs->positions) : ConstTensorView(),
                                     .position_weight = weights_[Role::kPositionEmbedding]});
  if (ctx.training && config_.dropout > 0) ctx.kernels.dropout(ctx.stream, dropout(config_, ctx, y));
  co_return;
}

task::Task<> EmbeddingBlock::weight_gradient(Context& ctx, TensorView dy) {
  if (config_.dropout > 0) ctx.kernels.dropout(ctx.stream, dropout(config_, ctx, dy));
  const bool learned = config_.learned_positions();
  ctx.kernels.embedding_weight_gradient(
      ctx.stream, {.dweight = gradients_[Role::kTokenEmbedding],
                   .dposition_weight = gradients_[Role::kPositionEmbedding],
                   .tokens = ctx.inputs->tokens,
                   .positions = learned ? ConstTensorView(ctx.inputs->positions) : ConstTensorView(),
                   .dy = dy});
  co_return;
}

}  // namespace troupe::models
