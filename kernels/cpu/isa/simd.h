// Vectors of floats as the sources in isa/ use them: each loop is written once and compiled for every
// instruction set.
//
// F32 holds kLanes floats (16 with AVX-512, 8 with AVX2, 4 else), U32 and I32 as many integers. The operators
// + - * / < == & | ?: are the compiler's (vector extensions); a product and a sum are fused by fma() only,
// never by the compiler (-ffp-contract=off), so the bits of a loop are what it says. `blocks` walks a row and
// hands out Full{} and then, once, the Partial tail; load, store and keep take either, and nothing outside
// [p, p + n) is read or written.
//
// Rules for sources in isa/: every function is in namespace TROUPE_ISA, in an unnamed namespace, or a
// template over Isa; no inline function or template of the standard library or of another folder is called.
// Otherwise the linker could keep the copy with wide instructions for everybody
// (CpuIsa.KeepsWideInstructionsToItself). bfloat16 is only pointed to; its conversions are load and store.
//
// exp and its like: simd_math.h. Tested by Simd.* in tests/unit/kernels.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "runtime/device/dtype.h"

#define TROUPE_SIMD inline __attribute__((always_inline))

namespace troupe::kernels::cpu::TROUPE_ISA {

inline constexpr Isa kIsa = Isa::TROUPE_ISA_KIND;

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using bfloat16 = device::bfloat16;

typedef float F32 __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t I32 __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t U32 __attribute__((vector_size(4 * kLanes)));
typedef std::uint16_t U16 __attribute__((vector_size(2 * kLanes)));
typedef double F64 __attribute__((vector_size(4 * kLanes)));  // half as many lanes
typedef float F32Half __attribute__((vector_size(2 * kLanes)));
// the same, anywhere in memory
typedef float F32Anywhere __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef std::int32_t I32Anywhere __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef std::uint16_t U16Anywhere __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));

// ---- Making vectors
TROUPE_SIMD F32 broadcast(float x) { return x - F32{}; }
TROUPE_SIMD I32 broadcast(std::int32_t x) { return x - I32{}; }
TROUPE_SIMD U32 bits(F32 x) { return (U32)x; }
TROUPE_SIMD F32 from_bits(U32 x) { return (F32)x; }
TROUPE_SIMD I32 iota() {
  I32 x;
  for (int i = 0; i < kLanes; ++i) x[i] = i;
  return x;
}

// ---- Memory, whole vectors
TROUPE_SIMD F32 load(const float* p) { return *reinterpret_cast<const F32Anywhere*>(p); }
TROUPE_SIMD I32 load(const std::int32_t* p) { return *reinterpret_cast<const I32Anywhere*>(p); }
TROUPE_SIMD void store(float* p, F32 x) { *reinterpret_cast<F32Anywhere*>(p) = x; }

TROUPE_SIMD F32 widen(U16 x) {
#if defined(__AVX512F__)
  return from_bits((U32)_mm512_cvtepu16_epi32((__m256i)x) << 16);
#elif defined(__AVX2__)
  return from_bits((U32)_mm256_cvtepu16_epi32((__m128i)x) << 16);
#else
  __m128i wide = {};
  __builtin_memcpy(&wide, &x, sizeof x);
  return (F32)_mm_unpacklo_epi16(__m128i{}, wide);
#endif
}
// To bf16 in the upper half of each lane, round to nearest even; NaN stays a (quiet) NaN.
TROUPE_SIMD U32 rounded_bits(F32 x) {
  const U32 word = bits(x);
  const U32 rounded = word + 0x7fffu + ((word >> 16) & 1u);
  return x == x ? rounded : (word | 0x400000u);
}
TROUPE_SIMD U16 narrow(F32 x) {
  const U32 word = rounded_bits(x);
#if defined(__AVX512F__)
  return (U16)_mm512_cvtepi32_epi16((__m512i)(word >> 16));
#elif defined(__AVX2__)
  const __m256i shifted = (__m256i)(word >> 16);
  return (U16)_mm_packus_epi32(_mm256_castsi256_si128(shifted), _mm256_extracti128_si256(shifted, 1));
#else
  // SSE2 packs signed words only: shift arithmetically, so that each half is a value it keeps
  const __m128i shifted = (__m128i)((I32)word >> 16);
  U16 low;
  const __m128i packed = _mm_packs_epi32(shifted, shifted);
  __builtin_memcpy(&low, &packed, sizeof low);
  return low;
#endif
}
TROUPE_SIMD F32 load(const bfloat16* p) { return widen(*reinterpret_cast<const U16Anywhere*>(p)); }
TROUPE_SIMD void store(bfloat16* p, F32 x) { *reinterpret_cast<U16Anywhere*>(p) = narrow(x); }

// One element.
TROUPE_SIMD float load_one(const float* p) { return *p; }
TROUPE_SIMD float load_one(const bfloat16* p) {
  const std::uint32_t word = static_cast<std::uint32_t>(p->bits) << 16;
  float x;
  __builtin_memcpy(&x, &word, sizeof x);
  return x;
}

// ---- Memory, the first `count` lanes (0 < count < kLanes); the others are zero, and are not written
struct Full {};
struct Partial {
  int count;
};

TROUPE_SIMD F32 load(const float* p, Full) { return load(p); }
TROUPE_SIMD F32 load(const bfloat16* p, Full) { return load(p); }
TROUPE_SIMD I32 load(const std::int32_t* p, Full) { return load(p); }
TROUPE_SIMD void store(float* p, F32 x, Full) { store(p, x); }
TROUPE_SIMD void store(bfloat16* p, F32 x, Full) { store(p, x); }

TROUPE_SIMD F32 load(const float* p, Partial lanes) {
  F32 x = {};
  for (int i = 0; i < lanes.count; ++i) x[i] = p[i];
  return x;
}
TROUPE_SIMD I32 load(const std::int32_t* p, Partial lanes) {
  I32 x = {};
  for (int i = 0; i < lanes.count; ++i) x[i] = p[i];
  return x;
}
TROUPE_SIMD F32 load(const bfloat16* p, Partial lanes) {
  U16 x = {};
  for (int i = 0; i < lanes.count; ++i) x[i] = p[i].bits;
  return widen(x);
}
TROUPE_SIMD void store(float* p, F32 x, Partial lanes) {
  for (int i = 0; i < lanes.count; ++i) p[i] = x[i];
}
TROUPE_SIMD void store(bfloat16* p, F32 x, Partial lanes) {
  const U16 word = narrow(x);
  for (int i = 0; i < lanes.count; ++i) p[i].bits = word[i];
}
// The lanes that count, the others 0.
TROUPE_SIMD F32 keep(F32 x, Full) { return x; }
TROUPE_SIMD F32 keep(F32 x, Partial lanes) { return iota() < broadcast(lanes.count) ? x : F32{}; }

// body(i, lanes) for i = 0, kLanes, 2 kLanes ... below n; `lanes` is Full, or Partial in the last call where
// n has a remainder.
template <class Body>
TROUPE_SIMD void blocks(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, Partial{static_cast<int>(n - i)});
}

// ---- Arithmetic
TROUPE_SIMD F32 fma(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return (F32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (F32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;  // rounded twice
#endif
}
TROUPE_SIMD F32 fma(F32 a, float b, F32 c) { return fma(a, broadcast(b), c); }
// a where a compares greater (less), else b; a NaN in b stays.
TROUPE_SIMD F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return (F32)_mm_max_ps((__m128)a, (__m128)b);
#endif
}
TROUPE_SIMD F32 min(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return (F32)_mm_min_ps((__m128)a, (__m128)b);
#endif
}
TROUPE_SIMD F32 abs(F32 x) { return from_bits(bits(x) & 0x7fffffffu); }
TROUPE_SIMD F32 copysign(F32 size, F32 sign) {
  return from_bits((bits(size) & 0x7fffffffu) | (bits(sign) & 0x80000000u));
}
TROUPE_SIMD F32 reciprocal(F32 x) { return 1.0f / x; }  // correctly rounded
TROUPE_SIMD float sqrt(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
TROUPE_SIMD F32 sqrt(F32 x) {
#if defined(__AVX512F__)
  return (F32)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (F32)_mm256_sqrt_ps((__m256)x);
#else
  return (F32)_mm_sqrt_ps((__m128)x);
#endif
}

// What storing as T and loading again gives.
template <class T>
TROUPE_SIMD F32 rounded_to(F32 x);
template <>
TROUPE_SIMD F32 rounded_to<float>(F32 x) {
  return x;
}
template <>
TROUPE_SIMD F32 rounded_to<bfloat16>(F32 x) {
  return from_bits(rounded_bits(x) & 0xffff0000u);
}

// ---- Folds over the lanes, always in the order (i, i + n/2), then (i, i + n/4) ...
TROUPE_SIMD float fold_sum(__m128 x) {
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
TROUPE_SIMD float fold_max(__m128 x) {
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}
TROUPE_SIMD float sum(F32 x) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
  return fold_sum(_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#elif defined(__AVX2__)
  return fold_sum(_mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1)));
#else
  return fold_sum((__m128)x);
#endif
}
// Of lanes without NaN.
TROUPE_SIMD float largest(F32 x) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
  return fold_max(_mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#elif defined(__AVX2__)
  return fold_max(_mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1)));
#else
  return fold_max((__m128)x);
#endif
}

}  // namespace troupe::kernels::cpu::TROUPE_ISA
