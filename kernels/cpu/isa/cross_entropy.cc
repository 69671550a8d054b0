// A row of logits (200 KB at 50304) is read from memory once; the later passes find it in the second-level
// cache.
#include "kernels/cpu/isa/cross_entropy.h"

#include "kernels/cpu/isa/simd_math.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

// Eight accumulators: the chain of additions is 64 times (AVX2) shorter than the row.
constexpr int kWide = 8;

TROUPE_SIMD float largest_of(const float* row, std::int64_t n) {
  F32 most[kWide];
  for (int i = 0; i < kWide; ++i) most[i] = broadcast(row[0]);
  std::int64_t at = 0;
  for (; at + kWide * kLanes <= n; at += kWide * kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kWide; ++i) most[i] = max(most[i], load(row + at + i * kLanes));
  }
  for (int i = 1; i < kWide; ++i) most[0] = max(most[0], most[i]);
  float result = largest(most[0]);
  for (; at < n; ++at) result = row[at] > result ? row[at] : result;
  return result;
}

// The row becomes exp(row - shift); returns its sum.
TROUPE_SIMD float exp_in_place(float* row, float shift, std::int64_t n) {
  F32 sums[kWide] = {};
  std::int64_t at = 0;
  for (; at + kWide * kLanes <= n; at += kWide * kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kWide; ++i) {
      const F32 e = exp_within(load(row + at + i * kLanes) - shift);  // at least e^-87, which no sum notices
      store(row + at + i * kLanes, e);
      sums[i] += e;
    }
  }
  blocks(
      n - at, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 e = keep(exp_within(load(row + at + i, lanes) - shift), lanes);
        store(row + at + i, e, lanes);
        sums[0] += e;
      });
  for (int width = kWide / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sum(sums[0]);
}

// A narrower T is written behind what is still to be read: block i of the result ends where block i of the
// row starts, or before.
template <class T>
TROUPE_SIMD void scale_in_place(float* row, float factor, std::int64_t n) {
  T* to = reinterpret_cast<T*>(row);
  blocks(
      n, [&](std::int64_t i, auto lanes)
             __attribute__((always_inline)) { store(to + i, load(row + i, lanes) * factor, lanes); });
}

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa, class T>
SoftmaxRow softmax_row(float* logits, std::int64_t vocabulary, std::int64_t padded, std::int64_t target,
                       bool gradient) {
  SoftmaxRow row{.largest = largest_of(logits, vocabulary), .sum = 0, .target_logit = logits[target]};
  row.sum = exp_in_place(logits, row.largest, vocabulary);
  if (!gradient) return row;
  const float factor = 1.0f / row.sum;
  const F32 at_target = broadcast(logits[target] * factor - 1.0f);
  scale_in_place<T>(logits, factor, vocabulary);
  T* dlogits = reinterpret_cast<T*>(logits);
  store(dlogits + target, at_target, Partial{1});
  for (std::int64_t v = vocabulary; v < padded; v += kLanes) {
    const std::int64_t left = padded - v;
    if (left >= kLanes) {
      store(dlogits + v, F32{});
    } else {
      store(dlogits + v, F32{}, Partial{static_cast<int>(left)});
    }
  }
  return row;
}

template SoftmaxRow softmax_row<kIsa, float>(float*, std::int64_t, std::int64_t, std::int64_t, bool);
template SoftmaxRow softmax_row<kIsa, bfloat16>(float*, std::int64_t, std::int64_t, std::int64_t, bool);

}  // namespace troupe::kernels::cpu
