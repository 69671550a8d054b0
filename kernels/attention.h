// Causal grouped-query attention with a document mask, tiled: no T x T matrix is ever stored. Dao et al. 2022 (forward,
// online softmax), Dao 2023 (backward from the log-sum-exp).
//
// Query t of a row sees keys j with document_start[t] <= j <= t of the same row. q head h reads kv head h / (H / G).
// Scores, softmax and accumulation in fp32.
#pragma once

#include "runtime/base/rng.h"
#include "runtime/device/tensor.h"

namespace troupe::kernels {

// A query keeps key j when its word is >= probability * 2^32, and then weighs it 1 / (1 - probability) times its share of the softmax. The word
// is number first_dropout_word + j of RandomStream{seed, step, sample id of the row, layer, use}: the same in any plan and tiling, in
// recomputation and in backward.
struct AttentionDropout {
  device::ConstTensorView sample_ids;         // [B, 2] int32, as put_sample_id writes them (activation.h); none needed where nothing is dropped
  RandomKey key;                              // its `sample` is ignored
  float probability = 0.0f;                   // [0, 1)
};
// Of query t of q head h, rows of words begin at a whole Philox block.
constexpr std::int64_t first_dropout_word(std::int64_t tokens, std::int64_t head, std::int64_t query) {
  return (head * tokens + query) * ((tokens + 3) / 4 * 4);
}

struct Attention {
  device::TensorView out;                     // [B, T, H D]         bf16 | fp32
  device::TensorView log_sum_exp;             // [B, H, T]           fp32, of the scaled scores, kept
  device::ConstTensorView qkv;                // [B, T, (H + 2G) D]  same type as out; rows [q heads | k heads | v heads]
  device::ConstTensorView document_start;     // [B, T]              int32, or none: 0 everywhere
  int q_heads = 0, kv_heads = 0;
  float scale = 1.0f;                         // 1 / sqrt(D) as a rule
  AttentionDropout dropout{};
};

// dqkv is written, not accumulated: every element, zero where nothing reaches it.
struct AttentionInputGradient {
  device::TensorView dqkv;                    // [B, T, (H + 2G) D]
  device::ConstTensorView dout;               // [B, T, H D]
  device::ConstTensorView out;                // [B, T, H D]
  device::ConstTensorView qkv;                // [B, T, (H + 2G) D]
  device::ConstTensorView log_sum_exp;        // [B, H, T]           fp32
  device::ConstTensorView document_start;     // as above
  int q_heads = 0, kv_heads = 0;
  float scale = 1.0f;
  AttentionDropout dropout{};                 // the forward's
};

}  // namespace troupe::kernels
