// The arithmetic ceiling of one core, per instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace troupe::kernels::cpu {

// Runs `rounds` rounds of 12 independent multiply-add chains of whole vectors; returns the floating-point
// operations done. `sink` takes a value that depends on all of them.
template <Isa>
double multiply_add(std::int64_t rounds, float* sink);

}  // namespace troupe::kernels::cpu
