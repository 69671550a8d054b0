// What a device can do at best, measured: the denominator of MFU.
#pragma once

#include "kernels/table.h"

namespace troupe::actors {

// FLOP/s of the best of a few square-ish matrix products of the compute type, in a fraction of a second. Blocks: start-up only.
double measure_matmul_peak(const kernels::Table& kernels, device::DType type, int threads);

}  // namespace troupe::actors
