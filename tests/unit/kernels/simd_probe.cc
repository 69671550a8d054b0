#include "tests/unit/kernels/simd_probe.h"

#include "kernels/cpu/isa/simd_math.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

template <F32 (*kFunction)(F32), class To, class From>
void each(To* y, const From* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes)
             __attribute__((always_inline)) { store(y + i, kFunction(load(x + i, lanes)), lanes); });
}
F32 same(F32 x) { return x; }
F32 exponential(F32 x) { return exp(x); }
F32 exponential_within(F32 x) { return exp_within(x); }
F32 hyperbolic(F32 x) { return tanh(x); }
F32 error_function(F32 x) { return erf(x); }
F32 sine_of(F32 x) { return sincos(x).sine; }
F32 cosine_of(F32 x) { return sincos(x).cosine; }
F32 root(F32 x) { return sqrt(x); }
F32 inverse(F32 x) { return reciprocal(x); }
F32 through_bf16(F32 x) { return rounded_to<bfloat16>(x); }

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa>
SimdProbe make_simd_probe() {
  return {.lanes = kLanes,
          .exp = each<exponential, float, float>,
          .exp_within = each<exponential_within, float, float>,
          .tanh = each<hyperbolic, float, float>,
          .erf = each<error_function, float, float>,
          .sine = each<sine_of, float, float>,
          .cosine = each<cosine_of, float, float>,
          .sqrt = each<root, float, float>,
          .reciprocal = each<inverse, float, float>,
          .round_to_bf16 = each<through_bf16, float, float>,
          .copy = each<same, float, float>,
          .narrow = each<same, bfloat16, float>,
          .widen = each<same, float, bfloat16>,
          .copy_bf16 = each<same, bfloat16, bfloat16>,
          .sum = [](const float* x) { return sum(load(x)); },
          .largest = [](const float* x) { return largest(load(x)); },
          .sum_kept = [](const float* x, int count) { return sum(keep(load(x), Partial{count})); }};
}

template SimdProbe make_simd_probe<kIsa>();

}  // namespace troupe::kernels::cpu
