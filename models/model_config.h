// What a decoder-only language model is: GPT-2, Llama 2/3, Qwen2 and Qwen3 as configurations of one decoder.
//
// The families differ in norm, positions, biases, the norm of queries and keys, and the MLP; the functions below say which has
// what, so that no other file asks for a family's name.
// Errors: validate() names the keys that contradict each other, their values and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/activation.h"
#include "kernels/matmul.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::models {

enum class Family { kGpt2, kLlama, kQwen2, kQwen3 };
std::string_view name(Family family);
StatusOr<Family> family_named(const std::string& name);

// Llama 3.1's stretching of the rotary frequencies; none when factor is 1.
struct RopeScaling {
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_max_seq_len = 8192;
};

struct ModelConfig {
  Family family = Family::kLlama;
  std::int64_t vocabulary = 0;         // V, what the tokenizer knows
  std::int64_t padded_vocabulary = 0;  // rows of the embedding; those beyond V are masked, never trained, never exported
  std::int64_t layers = 0;             // L
  std::int64_t hidden = 0;             // C
  std::int64_t heads = 0;              // H
  std::int64_t kv_heads = 0;           // G, divides H
  std::int64_t head_dim = 0;           // D
  std::int64_t intermediate = 0;       // I
  std::int64_t max_seq_len = 0;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied_embeddings = false;
  double dropout = 0;                  // on the embedding, the attention's probabilities and the two residual branches
  double init_std = 0.02;

  bool layer_norm() const { return family == Family::kGpt2; }
  bool learned_positions() const { return family == Family::kGpt2; }
  bool gated_mlp() const { return family != Family::kGpt2; }
  bool qkv_bias() const { return family == Family::kGpt2 || family == Family::kQwen2; }
  bool linear_bias() const { return family == Family::kGpt2; }  // of the other projections
  bool qk_norm() const { return family == Family::kQwen3; }
  kernels::WeightLayout weight_layout() const {
    return family == Family::kGpt2 ? kernels::WeightLayout::kInOut : kernels::WeightLayout::kOutIn;
  }
  std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t attention_width() const { return heads * head_dim; }
  std::int64_t up_width() const { return gated_mlp() ? 2 * intermediate : intermediate; }

  // Blocks: 0 embedding, 1..L transformer, L + 1 head.
  BlockIndex head_block() const { return BlockIndex(static_cast<std::int32_t>(layers + 1)); }
  std::int32_t blocks() const { return static_cast<std::int32_t>(layers + 2); }
};

Status validate(const ModelConfig& config);

// What must be equal for a checkpoint to fit, as a JSON object with the names of Hugging Face's config.json.
std::string describe(const ModelConfig& config);

}  // namespace troupe::models
