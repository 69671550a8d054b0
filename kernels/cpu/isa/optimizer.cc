// AdamW is one pass over everything it touches: 32 bytes of fp32 state read and written and the weight per
// element, with the cast to the weight and the clearing of the gradient in it.
#include "kernels/cpu/isa/optimizer.h"

#include "kernels/cpu/isa/simd.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

constexpr int kDoubleLanes = kLanes / 2;
constexpr int kSumLanes = 16;
constexpr int kSums = kSumLanes / kDoubleLanes;
typedef float F32HalfAnywhere __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

template <bool kSquare>
TROUPE_SIMD double sum_lanes(const float* x, std::int64_t n) {
  F64 sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (int k = 0; k < kSums; ++k) {
      const F32Half part = *reinterpret_cast<const F32HalfAnywhere*>(x + i + k * kDoubleLanes);
      const F64 wide = __builtin_convertvector(part, F64);
      sums[k] += kSquare ? wide * wide : wide;  // the square of a float is exact in double
    }
  }
  double lanes[kSumLanes];
  __builtin_memcpy(lanes, sums, sizeof lanes);
  for (int k = 0; i < n; ++i, ++k) {
    const double wide = static_cast<double>(x[i]);
    lanes[k] += kSquare ? wide * wide : wide;
  }
  for (int half = kSumLanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa, class T>
void adamw_elements(const AdamWElements<T>& e, std::int64_t begin, std::int64_t end) {
  blocks(
      end - begin, [&](std::int64_t offset, auto lanes) __attribute__((always_inline)) {
        const std::int64_t i = begin + offset;
        const F32 g = load(e.gradient + i, lanes) * e.gradient_scale;
        const F32 m = fma(load(e.m + i, lanes), e.beta1, g * e.one_minus_beta1);
        const F32 v = fma(load(e.v + i, lanes), e.beta2, g * g * e.one_minus_beta2);
        const F32 size = sqrt(v * e.inverse_correction2) + e.epsilon;
        const F32 master = fma(load(e.master + i, lanes), e.decay, -(m * e.rate / size));
        store(e.m + i, m, lanes);
        store(e.v + i, v, lanes);
        store(e.master + i, master, lanes);
        if (e.clear_gradient) store(e.gradient + i, F32{}, lanes);
        if (static_cast<const void*>(e.weight) != e.master) store(e.weight + i, master, lanes);
      });
}

template <Isa>
double sum_of_squares(const float* x, std::int64_t n) {
  return sum_lanes<true>(x, n);
}
template <Isa>
double sum_in_double(const float* x, std::int64_t n) {
  return sum_lanes<false>(x, n);
}

template void adamw_elements<kIsa, float>(const AdamWElements<float>&, std::int64_t, std::int64_t);
template void adamw_elements<kIsa, bfloat16>(const AdamWElements<bfloat16>&, std::int64_t, std::int64_t);
template double sum_of_squares<kIsa>(const float*, std::int64_t);
template double sum_in_double<kIsa>(const float*, std::int64_t);

}  // namespace troupe::kernels::cpu
