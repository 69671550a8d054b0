// The one table of tolerances of the parity tests: a tensor's error is max|a - b| / max|b| against the double reference.
#pragma once

#include "runtime/device/dtype.h"

namespace troupe::kernels {

struct Tolerance {
  double fp32;
  double bf16;
};

// bf16 keeps 8 bits: half an ulp of the output is 2^-9 = 2e-3 of its own size.
inline constexpr Tolerance kMatmulTolerance{2e-6, 4e-3};
inline constexpr Tolerance kWeightGradientTolerance{2e-6, 4e-6};  // fp32 accumulators in either case
inline constexpr Tolerance kNormTolerance{1e-6, 8e-3};            // two roundings in bf16: normalised value, then product
inline constexpr Tolerance kAttentionTolerance{2e-6, 4e-3};
inline constexpr Tolerance kAttentionGradientTolerance{5e-6, 8e-3};  // reads the rounded `out`
inline constexpr Tolerance kElementwiseTolerance{1e-6, 4e-3};
inline constexpr Tolerance kCrossEntropyTolerance{2e-6, 8e-3};    // logit gradients are rounded to bf16 before the products
inline constexpr Tolerance kOptimizerTolerance{1e-6, 4e-3};

constexpr double of(Tolerance tolerance, device::DType type) {
  return type == device::DType::kBF16 ? tolerance.bf16 : tolerance.fp32;
}

}  // namespace troupe::kernels
