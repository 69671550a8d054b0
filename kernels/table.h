// All kernels of one filling: a plain struct of function pointers. Model code takes a Table and knows no filling.
//
// Each function enqueues on `stream` and returns: it never waits, never allocates, and keeps the views it was given until its
// work ran. Scratch comes from the stream (StreamContext::scratch). Fillings: ref (double, slow, the specification), cpu.
//
// To add an op: its struct in a header here, its line in TROUPE_KERNELS, then ref, the parity test's row, and the others.
#pragma once

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/rope.h"
#include "runtime/device/stream.h"

// X(member, Struct)
#define TROUPE_KERNELS(X)                                   \
  X(matmul, Matmul)                                         \
  X(matmul_input_gradient, MatmulInputGradient)             \
  X(matmul_weight_gradient, MatmulWeightGradient)           \
  X(rmsnorm, RmsNorm)                                       \
  X(rmsnorm_input_gradient, RmsNormInputGradient)           \
  X(rmsnorm_weight_gradient, RmsNormWeightGradient)         \
  X(layernorm, LayerNorm)                                   \
  X(layernorm_input_gradient, LayerNormInputGradient)       \
  X(layernorm_weight_gradient, LayerNormWeightGradient)     \
  X(qk_norm, QkNorm)                                        \
  X(qk_norm_input_gradient, QkNormInputGradient)            \
  X(qk_norm_weight_gradient, QkNormWeightGradient)          \
  X(rope, Rope)                                             \
  X(attention, Attention)                                   \
  X(attention_input_gradient, AttentionInputGradient)       \
  X(swiglu, Swiglu)                                         \
  X(swiglu_input_gradient, SwigluInputGradient)             \
  X(gelu, Gelu)                                             \
  X(gelu_input_gradient, GeluInputGradient)                 \
  X(dropout, Dropout)                                       \
  X(embedding, Embedding)                                   \
  X(embedding_weight_gradient, EmbeddingWeightGradient)     \
  X(cross_entropy_head, CrossEntropyHead)                   \
  X(logits, Logits)                                         \
  X(fill, Fill)                                             \
  X(cast, Cast)                                             \
  X(add, Add)                                               \
  X(adamw, AdamW)                                           \
  X(squared_norm, SquaredNorm)                              \
  X(loss_sum, LossSum)

namespace troupe::kernels {

struct Table {
#define TROUPE_KERNEL_MEMBER(member, Op) void (*member)(Stream&, const Op&) = nullptr;
  TROUPE_KERNELS(TROUPE_KERNEL_MEMBER)
#undef TROUPE_KERNEL_MEMBER
  const char* name = "";            // "ref", "cpu/avx2" ...
  // Bytes of scratch a stream must have for matrix products of these sizes; part of the plan.
  std::int64_t (*matmul_scratch_bytes)(std::int64_t n, std::int64_t in, std::int64_t out, device::DType type, int threads) = nullptr;
  // The same for attention over rows of `tokens` tokens, forward and backward.
  std::int64_t (*attention_scratch_bytes)(std::int64_t tokens, std::int64_t head_dim, int threads) = nullptr;
};

}  // namespace troupe::kernels
