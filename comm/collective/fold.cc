#include "comm/collective/fold.h"

namespace troupe::comm {

using device::bfloat16;

void add_fp32(float* __restrict sum, const float* __restrict addend, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}
void add_bf16(float* __restrict sum, const bfloat16* __restrict addend, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += static_cast<float>(addend[i]);
}
void widen_bf16(float* __restrict to, const bfloat16* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
void narrow_to_bf16(bfloat16* __restrict to, const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = bfloat16(from[i]);
}

}  // namespace troupe::comm
