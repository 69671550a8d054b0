// Sums of tensors' bytes, in fp32: `count` elements each. Memory of the two does not overlap, and is the caller's.
// Threads: any; pure, bitwise deterministic. Errors: none; infinities and NaN pass as fp32 sums have them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/device/dtype.h"

namespace troupe::comm {

// sum[i] += addend[i], in fp32.
void add_fp32(float* sum, const float* addend, std::int64_t count);
// sum[i] += fp32(addend[i]).
void add_bf16(float* sum, const device::bfloat16* addend, std::int64_t count);
void widen_bf16(float* to, const device::bfloat16* from, std::int64_t count);
// Round to nearest, ties to even.
void narrow_to_bf16(device::bfloat16* to, const float* from, std::int64_t count);

}  // namespace troupe::comm
