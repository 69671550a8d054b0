// Exponential, hyperbolic tangent, error function, sine and cosine of vectors of floats.
//
// Accuracy (Simd.* in tests/unit/kernels, against <cmath> in double): exp, exp_within, tanh, erf within 2 ulp
// of fp32, signs of zero, infinities and NaN included; sincos within 2^-23. Polynomials: fit_polynomials.py.
// The rules of simd.h hold.
#pragma once

#include "kernels/cpu/isa/simd.h"

namespace troupe::kernels::cpu::TROUPE_ISA {

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
