// The loops of fill, cast, add, embedding and rotary embedding, on plain pointers (elementwise.cc).
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace troupe::kernels::cpu {

template <Isa, class T>
void fill_elements(T* y, float value, std::int64_t n);
template <Isa, class To, class From>
void cast_elements(To* y, const From* x, std::int64_t n);
template <Isa, class T>
void add_elements(T* y, const T* a, const T* b, std::int64_t n);
// sum[i] += x[i]
template <Isa, class T>
void accumulate_elements(float* sum, const T* x, std::int64_t n);

// Rotates the first `heads` heads of rows [begin, end); rows are `width` long, heads D = 2 * pairs <= 2 *
// kMaxRopePairs.
inline constexpr std::int64_t kMaxRopePairs = 512;
template <Isa, class T>
void rope_rows(T* qkv, const std::int32_t* positions, const float* inverse_frequency, std::int64_t heads,
               std::int64_t pairs, std::int64_t width, bool inverse, std::int64_t begin, std::int64_t end);

}  // namespace troupe::kernels::cpu
