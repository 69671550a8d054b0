// One pass each. Bound: bytes in and out; the exponential keeps up with one core's share of memory.
#include "kernels/cpu/isa/activation.h"

#include "kernels/cpu/isa/philox.h"
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
void dropout_elements(T* y, const T* x, const T* residual, std::int64_t n, const DropoutMask& mask,
                      std::uint64_t first_word) {
  constexpr int kBatch = 256;
  alignas(64) std::uint32_t words[kBatch + kWordsAtOnce];
  const std::int64_t skipped =
      static_cast<std::int64_t>(first_word % 4);  // words of the first block that come before
  std::uint64_t block = first_word / 4;
  const KeySchedule keys = schedule(mask);
  for (std::int64_t begin = 0; begin < n; begin += kBatch) {
    const std::int64_t count = n - begin < kBatch ? n - begin : kBatch;
    for (std::int64_t i = 0; i < count + skipped; i += kWordsAtOnce)
      draw(words + i, mask, keys, block + static_cast<std::uint64_t>(i / 4));
    block += kBatch / 4;
    blocks(
        count, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
          U32 word;
          __builtin_memcpy(&word, words + skipped + i, sizeof word);
          const F32 v = load(x + begin + i, lanes) * mask.scale;
          const F32 kept = word >= mask.threshold ? v : F32{};
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
  template void dropout_elements<kIsa, T>(T*, const T*, const T*, std::int64_t, const DropoutMask&,     \
                                          std::uint64_t)
TROUPE_INSTANTIATE(float);
TROUPE_INSTANTIATE(bfloat16);

}  // namespace troupe::kernels::cpu
