// How much scratch attention needs; the ops are declared in ops.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace troupe::kernels::cpu {

// Forward and backward. Per thread: K, V and their gradients of one kv head in fp32 (5 x T x D), and tiles;
// never T x T.
template <Isa isa>
std::int64_t attention_scratch_bytes(std::int64_t tokens, std::int64_t head_dim, int threads);

}  // namespace troupe::kernels::cpu
