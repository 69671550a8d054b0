// The register tile of the matrix products and of attention: c[rows, columns] (+)= a b over a depth, all
// fp32, with b a row-major panel. Six by two vectors fill the 16 registers of AVX2, fourteen by two the 32 of
// AVX-512.
#pragma once

#include "kernels/cpu/isa/simd.h"

namespace troupe::kernels::cpu::TROUPE_ISA {

inline constexpr std::int64_t kTileRows = kLanes == 16 ? 14 : 6;
inline constexpr std::int64_t kTileVectors = 2, kTileColumns = kTileVectors * kLanes;

TROUPE_SIMD std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
TROUPE_SIMD std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
TROUPE_SIMD constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

template <class T>
TROUPE_SIMD void widen_row(float* to, const T* from, std::int64_t count) {
  blocks(
      count, [&](std::int64_t i, auto lanes)
                 __attribute__((always_inline)) { store(to + i, load(from + i, lanes), lanes); });
}

typedef std::uint16_t Halves8 __attribute__((vector_size(16)));
typedef float Vector4 __attribute__((vector_size(16)));
typedef std::uint32_t Words8 __attribute__((vector_size(32)));

// to[k * to_stride + j] = from[j * stride + k] for j, k in [0, 8).
TROUPE_SIMD void transpose_8x8(float* to, std::int64_t to_stride, const bfloat16* from, std::int64_t stride) {
  Halves8 r[8], s[8];
  for (int j = 0; j < 8; ++j) __builtin_memcpy(&r[j], from + j * stride, 16);
  // each step interleaves row j with row j + 4: three of them transpose
  const auto interleave = [](const Halves8* in, Halves8* out) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      out[2 * j] = __builtin_shufflevector(in[j], in[j + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      out[2 * j + 1] = __builtin_shufflevector(in[j], in[j + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
  };
  interleave(r, s);
  interleave(s, r);
  interleave(r, s);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const Words8 w = __builtin_convertvector(s[k], Words8) << 16;
    __builtin_memcpy(to + k * to_stride, &w, 32);
  }
}
TROUPE_SIMD void transpose_8x8(float* to, std::int64_t to_stride, const float* from, std::int64_t stride) {
#pragma GCC unroll 2
  for (int half = 0; half < 8; half += 4) {
#pragma GCC unroll 2
    for (int k = 0; k < 8; k += 4) {
      Vector4 r[4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) __builtin_memcpy(&r[j], from + (half + j) * stride + k, 16);
      const Vector4 a = __builtin_shufflevector(r[0], r[2], 0, 4, 1, 5),
                    b = __builtin_shufflevector(r[0], r[2], 2, 6, 3, 7);
      const Vector4 c = __builtin_shufflevector(r[1], r[3], 0, 4, 1, 5),
                    d = __builtin_shufflevector(r[1], r[3], 2, 6, 3, 7);
      const Vector4 out[4] = {
          __builtin_shufflevector(a, c, 0, 4, 1, 5), __builtin_shufflevector(a, c, 2, 6, 3, 7),
          __builtin_shufflevector(b, d, 0, 4, 1, 5), __builtin_shufflevector(b, d, 2, 6, 3, 7)};
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) __builtin_memcpy(to + (k + i) * to_stride + half, &out[i], 16);
    }
  }
}

// One panel of B, of which b is the corner: `depth` times kTileColumns floats, columns past n are zero.
template <class T>
TROUPE_SIMD void pack_panel(float* packed, const T* b, std::int64_t stride, bool transposed, std::int64_t n,
                            std::int64_t depth) {
  if (!transposed && n >= kTileColumns) {
    for (std::int64_t k = 0; k < depth; ++k, packed += kTileColumns, b += stride) {
      for (std::int64_t j = 0; j < kTileColumns; j += kLanes) store(packed + j, load(b + j));
    }
    return;
  }
  std::int64_t k = 0;
  if (transposed && n >= kTileColumns) {
    for (; k + 8 <= depth; k += 8) {
      for (std::int64_t j = 0; j < kTileColumns; j += 8) {
        transpose_8x8(packed + k * kTileColumns + j, kTileColumns, b + j * stride + k, stride);
      }
    }
  }
  const std::int64_t along = transposed ? stride : 1, down = transposed ? 1 : stride;
  for (; k < depth; ++k) {
    for (std::int64_t j = 0; j < kTileColumns; ++j) {
      packed[k * kTileColumns + j] = j < n ? load_one(&b[k * down + j * along]) : 0.0f;
    }
  }
}

// c[i * c_stride + j] (+)= sum_k a[i * row_step + k * depth_step] b[k * b_stride + j], i < kM, j < kN
// vectors.
template <std::int64_t kM, std::int64_t kN>
TROUPE_SIMD void multiply_tile(const float* a, std::int64_t row_step, std::int64_t depth_step, const float* b,
                               std::int64_t b_stride, float* c, std::int64_t c_stride, std::int64_t depth,
                               bool accumulate) {
  F32 sums[kM][kN] = {};
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < depth; ++k) {
    F32 row[kN];
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kN; ++j) row[j] = load(b + k * b_stride + j * kLanes);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kM; ++i) {
      const F32 x = broadcast(a[i * row_step + k * depth_step]);
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < kN; ++j) sums[i][j] = fma(x, row[j], sums[i][j]);
    }
  }
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kM; ++i) {
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kN; ++j) {
      float* to = c + i * c_stride + j * kLanes;
      store(to, accumulate ? load(to) + sums[i][j] : sums[i][j]);
    }
  }
}

}  // namespace troupe::kernels::cpu::TROUPE_ISA
