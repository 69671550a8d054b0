// How much scratch matrix products need; the products are declared in ops.h, with the other ops.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "runtime/device/dtype.h"

namespace troupe::kernels::cpu {

// Enough for the three products of a linear layer and for logits, whatever the layout.
template <Isa isa>
std::int64_t matmul_scratch_bytes(std::int64_t n, std::int64_t in, std::int64_t out, device::DType type,
                                  int threads);

}  // namespace troupe::kernels::cpu
