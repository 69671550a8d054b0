// The instruction sets that the cpu kernels are compiled for. Sources in isa/ are compiled once for each.
#pragma once

namespace troupe::kernels::cpu {

// kBaseline is any x86-64 (SSE2); kAvx2 needs AVX2 and FMA; kAvx512 needs F, BW, DQ and VL.
enum class Isa { kBaseline, kAvx2, kAvx512 };

inline constexpr Isa kAllIsas[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512};

constexpr const char* name(Isa isa) {
  return isa == Isa::kBaseline ? "baseline" : isa == Isa::kAvx2 ? "avx2" : "avx512";
}

}  // namespace troupe::kernels::cpu
