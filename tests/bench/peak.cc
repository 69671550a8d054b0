#include "tests/bench/peak.h"

#include "kernels/cpu/isa/simd.h"

namespace troupe::kernels::cpu {

using namespace TROUPE_ISA;

template <Isa>
double multiply_add(std::int64_t rounds, float* sink) {
  constexpr int kChains = 12;  // latency 4, two a cycle, and some to spare; leaves registers for the factors
  F32 chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = broadcast(static_cast<float>(i));
  const F32 factor = broadcast(*sink), term = broadcast(1e-6f);
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kChains; ++i) chain[i] = fma(chain[i], factor, term);
  }
  F32 total = {};
  for (int i = 0; i < kChains; ++i) total += chain[i];
  *sink = sum(total);
  return 2.0 * kChains * kLanes * static_cast<double>(rounds);
}

template double multiply_add<kIsa>(std::int64_t, float*);

}  // namespace troupe::kernels::cpu
