// The three products of a linear layer, the logits, and how much scratch they need. Formulas: kernels/matmul.h.
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"

namespace troupe::kernels::cpu {

template <Isa isa>
void matmul(Stream& stream, const Matmul& op);
template <Isa isa>
void matmul_input_gradient(Stream& stream, const MatmulInputGradient& op);
template <Isa isa>
void matmul_weight_gradient(Stream& stream, const MatmulWeightGradient& op);
template <Isa isa>
void logits(Stream& stream, const Logits& op);

// Enough for each of the four, whatever the layout.
template <Isa isa>
std::int64_t matmul_scratch_bytes(std::int64_t n, std::int64_t in, std::int64_t out, device::DType type, int threads);

}  // namespace troupe::kernels::cpu
