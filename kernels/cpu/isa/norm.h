// The row loops of the norms, on plain pointers. Compiled once per instruction set (norm.cc); called by
// kernels/cpu/norm.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace troupe::kernels::cpu {

// What the norms of one call work on; a loop reads the fields its formula names (kernels/norm.h).
template <class T>
struct NormRows {
  T* out = nullptr;             // [N, C] y or dx
  const T* x = nullptr;         // [N, C]
  const T* dy = nullptr;        // [N, C]
  const T* weight = nullptr;    // [C]
  const T* bias = nullptr;      // [C], LayerNorm's
  const T* residual = nullptr;  // [N, C] or null
  float* mean = nullptr;        // [N], LayerNorm's
  float* inverse = nullptr;     // [N] 1 / rms or 1 / std; written forward, read backward
  std::int64_t channels = 0;
  float epsilon = 0;
};

// Rows [begin, end).
template <Isa, class T>
void rmsnorm_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end);
template <Isa, class T>
void rmsnorm_input_gradient_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end);
template <Isa, class T>
void layernorm_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end);
template <Isa, class T>
void layernorm_input_gradient_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end);

// dweight (and dbias where not null) of channels [begin, end), over all rows in order: chunks of
// kNormRowChunk rows are summed apart and added one after another. So the bits do not depend on how channels
// are shared out.
inline constexpr std::int64_t kNormRowChunk = 64;
template <Isa, class T>
void norm_weight_gradient_columns(const NormRows<T>& rows, std::int64_t row_count, float* dweight,
                                  float* dbias, std::int64_t begin, std::int64_t end);

// The same over the heads of fused rows [q | k | v]. `out`, `x`, `dy` are [N, (H + 2G) D], `inverse` is [N, H
// + G].
template <class T>
struct QkNormRows {
  NormRows<T> heads;            // channels is D; weight stays null
  const T* q_weight = nullptr;  // [D]
  const T* k_weight = nullptr;  // [D]
  std::int64_t q_heads = 0, kv_heads = 0;
};

template <Isa, class T>
void qk_norm_rows(const QkNormRows<T>& rows, std::int64_t begin, std::int64_t end);
template <Isa, class T>
void qk_norm_input_gradient_rows(const QkNormRows<T>& rows, std::int64_t begin, std::int64_t end);
// Adds the sums over rows [begin, end) to dq_weight and dk_weight, [D] each.
template <Isa, class T>
void qk_norm_weight_gradient_rows(const QkNormRows<T>& rows, float* dq_weight, float* dk_weight,
                                  std::int64_t begin, std::int64_t end);

}  // namespace troupe::kernels::cpu
