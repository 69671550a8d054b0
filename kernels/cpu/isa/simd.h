// Vectors of floats as the sources in isa/ use them: each loop is written once and compiled for every
// instruction set.
//
// F32 holds kLanes floats (16 with AVX-512, 8 with AVX2, 4 else), U32 and I32 as many integers. The operators
// + - * / < == & | ?: are the compiler's (vector extensions); a product and a sum are fused by fma() only,
// never by the compiler
// (-ffp-contract=off), so the bits of a loop are what it says. Functions take whole vectors; those with
// `Lanes` serve `blocks`, which walks a row and hands out full() and then, once, the partial tail: nothing
// outside [p, p + n) is read or written.
//
// Rules for sources in isa/: every function is in namespace TROUPE_ISA, in an unnamed namespace, or a
// template over Isa; no inline function or template of the standard library or of another folder is called.
// Otherwise the linker could keep the copy with wide instructions for everybody
// (CpuIsa.KeepsWideInstructionsToItself). bfloat16 is only pointed to; its conversions are load and store.
//
// Accuracy (Simd.* in tests/unit/kernels): exp, tanh, erf within 2 ulp of fp32; sincos within 2^-23.
// Polynomials: fit_polynomials.py.
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

// ---- Functions
// To the nearest integer, |x| < 2^22, as float and as int.
struct Rounded {
  F32 value;
  I32 integer;
};
TROUPE_SIMD Rounded nearest(F32 x) {
  const F32 shift = broadcast(12582912.0f);  // 1.5 * 2^23: the sum's last bit is 1
  const F32 shifted = x + shift;
  return {shifted - shift, (I32)shifted - (I32)shift};
}

// e^r for |r| <= ln 2 / 2.
TROUPE_SIMD F32 exp_reduced(F32 r) {
  F32 p = broadcast(1.383868628e-03f);
  p = fma(p, r, broadcast(8.369182236e-03f));
  p = fma(p, r, broadcast(4.166810215e-02f));
  p = fma(p, r, broadcast(1.666651666e-01f));
  p = fma(p, r, broadcast(4.999999404e-01f));
  return fma(p * r, r, r) + 1.0f;
}
// x - n ln 2, in two parts: the first has 16 bits, n times it is exact.
TROUPE_SIMD F32 minus_ln2(F32 x, F32 n) { return fma(n, -1.42860677e-6f, fma(n, -0.693145752f, x)); }

// e^x; 0 below -104, inf above 88.73, denormal results included.
TROUPE_SIMD F32 exp(F32 x) {
  x = min(broadcast(89.0f), max(broadcast(-104.0f), x));
  const Rounded n = nearest(x * 1.44269504f);
  // 2^n as two factors, so that n = 128 and n = -150 are in range
  const I32 half = n.integer >> 1, rest = n.integer - half;
  return exp_reduced(minus_ln2(x, n.value)) * (F32)((half + 127) << 23) * (F32)((rest + 127) << 23);
}

// e^x of x held within [-87, 88]: never 0, denormal or inf, and cheaper. For sigmoids, which have reached 0
// or 1 there.
TROUPE_SIMD F32 exp_within(F32 x) {
  x = min(broadcast(88.0f), max(broadcast(-87.0f), x));
  const F32 shift = broadcast(12582912.0f + 127.0f);  // as in nearest(), with the exponent's bias in it
  const F32 shifted = fma(x, 1.44269504f, shift);
  return exp_reduced(minus_ln2(x, shifted - shift)) * (F32)(bits(shifted) << 23);
}

// x + x z T(z) below 0.625, else 1 - 2 / (e^2|x| + 1).
TROUPE_SIMD F32 tanh(F32 x) {
  const F32 a = abs(x), z = x * x;
  F32 t = broadcast(-5.714063533e-03f);
  t = fma(t, z, broadcast(2.064806223e-02f));
  t = fma(t, z, broadcast(-5.374277383e-02f));
  t = fma(t, z, broadcast(1.333148330e-01f));
  t = fma(t, z, broadcast(-3.333328366e-01f));
  const F32 small = fma(a * z, t, a);
  const F32 large = 1.0f - 2.0f / (exp_within(a + a) + 1.0f);
  return copysign(a < 0.625f ? small : large, x);
}

// x + x E(x^2) below 1, else 1 - exp(-Q(|x|)).
TROUPE_SIMD F32 erf(F32 x) {
  const F32 a = abs(x), z = x * x;
  F32 e = broadcast(7.610260946e-05f);
  e = fma(e, z, broadcast(-7.962559466e-04f));
  e = fma(e, z, broadcast(5.185989197e-03f));
  e = fma(e, z, broadcast(-2.685414068e-02f));
  e = fma(e, z, broadcast(1.128362119e-01f));
  e = fma(e, z, broadcast(-3.761262894e-01f));
  e = fma(e, z, broadcast(1.283791661e-01f));
  const F32 small = fma(a, e, a);
  const F32 at = min(broadcast(4.0f), a);
  F32 q = broadcast(-1.863733924e-04f);
  q = fma(q, at, broadcast(2.947628964e-03f));
  q = fma(q, at, broadcast(-2.183799632e-02f));
  q = fma(q, at, broadcast(1.031066626e-01f));
  q = fma(q, at, broadcast(6.381449103e-01f));
  q = fma(q, at, broadcast(1.127089143e+00f));
  q = fma(q, at, broadcast(3.415396786e-04f));
  const F32 large = 1.0f - exp_within(-q);
  return copysign(a < 1.0f ? small : large, x);
}

// Sine and cosine of angles up to 1e8, reduced in double.
struct SinCos {
  F32 sine, cosine;
};
TROUPE_SIMD SinCos sincos(F32 x) {
  union Halves {
    F32 whole;
    F32Half half[2];
  };
  union WideHalves {
    I32 whole;
    std::int32_t lane[kLanes];
  };
  const Halves in{.whole = x};
  Halves reduced;
  WideHalves quadrant;
  for (int h = 0; h < 2; ++h) {
    const F64 angle = __builtin_convertvector(in.half[h], F64);
    const F64 shifted = angle * 0.63661977236758134308 + 6755399441055744.0;  // 2 / pi; 1.5 * 2^52
    const F64 n = shifted - 6755399441055744.0;
    reduced.half[h] =
        __builtin_convertvector(angle - n * 1.57079632679489655800 - n * 6.12323399573676603587e-17, F32Half);
    typedef std::int64_t I64 __attribute__((vector_size(4 * kLanes)));
    const I64 word = (I64)shifted;
    for (int i = 0; i < kLanes / 2; ++i)
      quadrant.lane[h * (kLanes / 2) + i] = static_cast<std::int32_t>(word[i]);
  }
  const F32 r = reduced.whole, z = r * r;
  F32 s = broadcast(-1.951878803e-04f);
  s = fma(s, z, broadcast(8.332191966e-03f));
  s = fma(s, z, broadcast(-1.666665524e-01f));
  s = fma(s * z, r, r);
  F32 c = broadcast(2.443067024e-05f);
  c = fma(c, z, broadcast(-1.388730132e-03f));
  c = fma(c, z, broadcast(4.166664556e-02f));
  c = fma(c, z * z, fma(z, -0.5f, broadcast(1.0f)));
  const I32 q = quadrant.whole;
  const I32 swapped = (q & 1) == 1;
  const U32 sine_sign = (U32)((q & 2) << 30), cosine_sign = (U32)(((q + 1) & 2) << 30);
  return {from_bits(bits(swapped ? c : s) ^ sine_sign), from_bits(bits(swapped ? s : c) ^ cosine_sign)};
}

}  // namespace troupe::kernels::cpu::TROUPE_ISA
