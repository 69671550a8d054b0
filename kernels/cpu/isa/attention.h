// Attention of one batch row and one kv head, with all q heads of its group, on plain pointers. Compiled once
// per instruction set (attention.cc); called by kernels/cpu/attention.cc. Formulas: kernels/attention.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/isa/dropout_mask.h"

namespace troupe::kernels::cpu {

inline constexpr std::int64_t kAttentionHeadDimMost = 256;

template <class T>
struct AttentionGroup {
  const T* q = nullptr;  // of token 0, the group's first q head; the others follow
  const T* k = nullptr;
  const T* v = nullptr;
  std::int64_t stride = 0;                       // from token to token, of q, k, v
  const std::int32_t* document_start = nullptr;  // [T], or null
  std::int64_t tokens = 0, head_dim = 0, heads = 0;
  float scale = 1;
  T* out = nullptr;  // as q, by out_stride; read backward
  std::int64_t out_stride = 0;
  float* log_sum_exp = nullptr;  // [heads, T]; read backward
  DropoutMask dropout;           // of the row
  std::int64_t first_word = 0;   // first_dropout_word of the first q head
  float* scratch = nullptr;      // attention_scratch_floats, this thread's
};

// Where the gradients go, laid out as q, k, v; dout as out.
template <class T>
struct AttentionGroupGradient {
  const T* dout = nullptr;
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
};

template <Isa>
std::int64_t attention_scratch_floats(std::int64_t tokens, std::int64_t head_dim);

// The query tiles of the group that fall to `part` of `parts`; each is computed alike whoever does it.
template <Isa, class T>
void attention_group(const AttentionGroup<T>& group, int part, int parts);

// q heads and query tiles in order, so dk and dv have one order of addition.
template <Isa, class T>
void attention_group_gradient(const AttentionGroup<T>& group, const AttentionGroupGradient<T>& gradient);

}  // namespace troupe::kernels::cpu
