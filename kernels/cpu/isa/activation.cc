// One pass each. Bound: bytes in and out; the exponential keeps up with one core's share of memory.
#include "kernels/cpu/isa/activation.h"

#include "kernels/cpu/isa/simd_math.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

TROUPE_SIMD F32 sigmoid(F32 x) { return 1.0f / (1.0f + exp_within(-x)); }

constexpr float kGeluScale = 0.797884561f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;
constexpr float kInverseSqrt2 = 0.707106781f;
constexpr float kInverseSqrt2Pi = 0.398942280f;

// sigmoid(x) and 1 - sigmoid(x), both to a few ulp of their own size: a slope multiplies the second by x.
struct Gate {
  F32 open, closed;
};
TROUPE_SIMD Gate gate(F32 x) {
  const F32 e = exp_within(-x);
  const F32 open = 1.0f / (1.0f + e);
  return {open, e * open};
}

// 0.5 (1 + tanh(u)) = sigmoid(2u)
TROUPE_SIMD F32 gelu_twice_u(F32 x) { return 2.0f * kGeluScale * fma(kGeluCubic * x * x, x, x); }

// ---- Philox4x32-10 on one counter per 64-bit lane, its words in the lower halves; what is in the upper
// halves is never read.
typedef std::uint64_t U64 __attribute__((vector_size(4 * kLanes)));
constexpr int kCounters = kLanes / 2;
constexpr int kWordsAtOnce = 2 * 4 * kCounters;

TROUPE_SIMD U64 multiply_low_halves(U64 a, U64 b) {
#if defined(__AVX512F__)
  return (U64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (U64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
  return (U64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}
TROUPE_SIMD U64 wide(std::uint64_t x) { return x - U64{}; }

TROUPE_SIMD U64 first_counters() {
  U64 x;
  for (int i = 0; i < kCounters; ++i) x[i] = static_cast<std::uint64_t>(i);
  return x;
}

// The keys of the ten rounds, one per lane.
struct KeySchedule {
  U64 first[10], second[10];
};
TROUPE_SIMD KeySchedule schedule(const DropoutStream& stream) {
  KeySchedule keys;
  for (std::uint32_t round = 0; round < 10; ++round) {
    keys.first[round] = wide(stream.key[0] + round * 0x9E3779B9u);
    keys.second[round] = wide(stream.key[1] + round * 0xBB67AE85u);
  }
  return keys;
}

// Words 4 block .. 4 block + kWordsAtOnce of the stream, in order. Two vectors of counters side by side: a
// round of one waits for its product while the other's is issued.
TROUPE_SIMD void draw(std::uint32_t* words, const DropoutStream& stream, const KeySchedule& keys,
                      std::uint64_t block) {
  constexpr int kPairs = 2;
  U64 c0[kPairs], c1[kPairs], c2[kPairs], c3[kPairs];
  for (int k = 0; k < kPairs; ++k) {
    c0[k] = wide(block + static_cast<std::uint64_t>(k * kCounters)) + first_counters();
    c1[k] = c0[k] >> 32;
    c2[k] = wide(stream.counter_high[0]);
    c3[k] = wide(stream.counter_high[1]);
  }
  const U64 multiplier0 = wide(0xD2511F53u), multiplier1 = wide(0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < kPairs; ++k) {
      const U64 p0 = multiply_low_halves(c0[k], multiplier0), p1 = multiply_low_halves(c2[k], multiplier1);
      c0[k] = (p1 >> 32) ^ (c1[k] ^ keys.first[round]);
      c2[k] = (p0 >> 32) ^ (c3[k] ^ keys.second[round]);
      c1[k] = p1;
      c3[k] = p0;
    }
  }
  const U64 low = wide(0xffffffffu);
  for (int k = 0; k < kPairs; ++k) {
    const U64 first = (c0[k] & low) | (c1[k] << 32), second = (c2[k] & low) | (c3[k] << 32);
#if defined(__AVX512F__)
    const U64 front = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
    const U64 back = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
    const U64 front = __builtin_shufflevector(first, second, 0, 4, 1, 5);
    const U64 back = __builtin_shufflevector(first, second, 2, 6, 3, 7);
#else
    const U64 front = __builtin_shufflevector(first, second, 0, 2);
    const U64 back = __builtin_shufflevector(first, second, 1, 3);
#endif
    std::uint32_t* at = words + k * 4 * kCounters;
    __builtin_memcpy(at, &front, sizeof front);
    __builtin_memcpy(at + 2 * kCounters, &back, sizeof back);
  }
}

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa, class T>
void swiglu_rows(T* y, const T* gate_up, std::int64_t inner, std::int64_t begin, std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const T* gates = gate_up + n * 2 * inner;
    const T* up = gates + inner;
    T* out = y + n * inner;
    blocks(
        inner, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
          const F32 g = load(gates + i, lanes);
          store(out + i, g / (1.0f + exp_within(-g)) * load(up + i, lanes), lanes);
        });
  }
}

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
template <Isa, class T>
void swiglu_input_gradient_rows(T* dgate_up, const T* dy, const T* gate_up, std::int64_t inner,
                                std::int64_t begin, std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const T* gates = gate_up + n * 2 * inner;
    const T* up = gates + inner;
    const T* d = dy + n * inner;
    T* dgate = dgate_up + n * 2 * inner;
    T* dup = dgate + inner;
    blocks(
        inner, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
          const F32 g = load(gates + i, lanes), u = load(up + i, lanes), out = load(d + i, lanes);
          const Gate s = gate(g);
          store(dgate + i, out * u * s.open * fma(g, s.closed, broadcast(1.0f)), lanes);
          store(dup + i, out * g * s.open, lanes);
        });
  }
}

template <Isa, class T>
void gelu_tanh(T* y, const T* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 v = load(x + i, lanes);
        store(y + i, v * sigmoid(gelu_twice_u(v)), lanes);
      });
}

template <Isa, class T>
void gelu_exact(T* y, const T* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 v = load(x + i, lanes);
        store(y + i, 0.5f * v * (1.0f + erf(v * kInverseSqrt2)), lanes);
      });
}

// With s = sigmoid(2u): d(x s)/dx = s + x 2 s (1 - s) u'.
template <Isa, class T>
void gelu_tanh_input_gradient(T* dx, const T* dy, const T* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 v = load(x + i, lanes);
        const Gate s = gate(gelu_twice_u(v));
        const F32 slope = 2.0f * kGeluScale * fma(3.0f * kGeluCubic * v, v, broadcast(1.0f));
        store(dx + i, load(dy + i, lanes) * fma(v * s.open * s.closed, slope, s.open), lanes);
      });
}

template <Isa, class T>
void gelu_exact_input_gradient(T* dx, const T* dy, const T* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 v = load(x + i, lanes);
        const F32 area = 0.5f + 0.5f * erf(v * kInverseSqrt2);
        const F32 density = kInverseSqrt2Pi * exp_within(-0.5f * v * v);
        store(dx + i, load(dy + i, lanes) * fma(v, density, area), lanes);
      });
}

template <Isa, class T>
void dropout_elements(T* y, const T* x, const T* residual, std::int64_t n, const DropoutStream& stream,
                      std::uint64_t first_word, std::uint32_t threshold, float scale) {
  constexpr int kBatch = 256;
  alignas(64) std::uint32_t words[kBatch + kWordsAtOnce];
  const std::int64_t skipped =
      static_cast<std::int64_t>(first_word % 4);  // words of the first block that come before
  std::uint64_t block = first_word / 4;
  const KeySchedule keys = schedule(stream);
  for (std::int64_t begin = 0; begin < n; begin += kBatch) {
    const std::int64_t count = n - begin < kBatch ? n - begin : kBatch;
    for (std::int64_t i = 0; i < count + skipped; i += kWordsAtOnce)
      draw(words + i, stream, keys, block + static_cast<std::uint64_t>(i / 4));
    block += kBatch / 4;
    blocks(
        count, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
          U32 word;
          __builtin_memcpy(&word, words + skipped + i, sizeof word);
          const F32 v = load(x + begin + i, lanes) * scale;
          const F32 kept = word >= threshold ? v : F32{};
          const F32 beside = residual ? load(residual + begin + i, lanes) : F32{};
          store(y + begin + i, kept + beside, lanes);
        });
  }
}

#define TROUPE_INSTANTIATE(T)                                                                           \
  template void swiglu_rows<kIsa, T>(T*, const T*, std::int64_t, std::int64_t, std::int64_t);           \
  template void swiglu_input_gradient_rows<kIsa, T>(T*, const T*, const T*, std::int64_t, std::int64_t, \
                                                    std::int64_t);                                      \
  template void gelu_tanh<kIsa, T>(T*, const T*, std::int64_t);                                         \
  template void gelu_exact<kIsa, T>(T*, const T*, std::int64_t);                                        \
  template void gelu_tanh_input_gradient<kIsa, T>(T*, const T*, const T*, std::int64_t);                \
  template void gelu_exact_input_gradient<kIsa, T>(T*, const T*, const T*, std::int64_t);               \
  template void dropout_elements<kIsa, T>(T*, const T*, const T*, std::int64_t, const DropoutStream&,   \
                                          std::uint64_t, std::uint32_t, float)
TROUPE_INSTANTIATE(float);
TROUPE_INSTANTIATE(bfloat16);

}  // namespace troupe::kernels::cpu
