// A whole model on one device, driven block by block through the classes of models/: what a stage does,
// without actors.
//
// Parameters and gradients are seen by their Hugging Face names, without padding rows. Weights of padding
// rows hold a large value, so that a logit that is not masked is seen at once.
//
// Threads: one, besides its stream's. Owns: pool, stream, weights, gradients, frames of one micro-batch.
// Errors: failed checks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/head_block.h"
#include "models/transformer_block.h"
#include "runtime/device/host_stream.h"

namespace troupe::parity {

// Each [B T] but sample_ids [B].
struct Batch {
  std::int64_t batch = 0;
  std::vector<std::int32_t> tokens, targets, positions, document_start, sample_ids;
};

class WholeModel {
 public:
  struct Setup {
    models::ModelConfig config;
    models::Geometry geometry;
    const kernels::Table& kernels;
    models::Recompute recompute = models::Recompute::kNone;
    int threads = 1;                // of the stream
    std::uint64_t seed = 0;         // of dropout
    std::int64_t chunk_tokens = 5;  // of the head: does not divide the rows of any test
  };
  explicit WholeModel(Setup setup);
  ~WholeModel();

  std::vector<std::string> names() const;
  std::vector<double> parameter(const std::string& name) const;
  void set_parameter(const std::string& name, std::span<const double> values);
  void set_batch(const Batch& batch);

  // Mean loss over unmasked tokens. With dropout where the config has it.
  double loss();
  // The same, and the gradients, which replace those before.
  double loss_and_gradients();
  std::vector<double> gradient(
      const std::string& name) const;  // of the mean loss; a tied weight's is the sum of both uses
  void set_gradient(const std::string& name, std::span<const double> values);
  double gradient_norm();
  // Largest gradient of a padding row.
  double padding_gradient() const;
  // [N, V] of all rows, without dropout.
  std::vector<double> logits();

  // One AdamW step with the gradients, clipped to norm 1 (golden/README.md); `step` counts from 1. fp32 only.
  void update(double learning_rate, std::int64_t step, double norm);

 private:
  struct Block {
    models::BlockLayout layout;
    device::Tensor weights, gradients, m, v, norm_chunks;
  };
  struct Place {
    const Block* block;
    const models::ParameterSpec* parameter;
  };
  void take(device::Allocator& from);
  Place place(const std::string& name) const;
  models::BlockWeights weights(std::int32_t block) const;
  models::BlockGradients gradients(std::int32_t block) const;
  models::TransformerBlock transformer(std::int32_t block) const;
  models::HeadBlock head() const;
  models::Context context(bool training) const;
  void forward(models::Context& context);
  double run_loss(models::Context& context);
  void backward(models::Context& context);
  void synchronize();

  const Setup setup_;
  std::unique_ptr<device::BufferPool> pool_;  // outlives what is taken from it
  std::vector<Block> blocks_;
  device::Tensor inverse_frequency_, head_gradient_, total_, logits_;
  models::MicroBatchInputs inputs_;
  models::TransformerFrame workspace_;               // shared by all blocks, where something is recomputed
  std::vector<models::TransformerFrame> frames_;     // of blocks 1..L
  models::TransformerGradientFrame gradient_frame_;  // of the block at hand
  models::HeadFrame head_frame_;
  std::vector<device::Tensor> x_;  // x_[b]: input of block b + 1
  device::Tensor dx_[2];
  double tokens_ = 0;  // unmasked, of the last loss
  std::unique_ptr<device::HostStream> stream_;
};

}  // namespace troupe::parity
