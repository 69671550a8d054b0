// Token (and learned position) embedding, and its weight gradient.
#pragma once

#include "runtime/device/tensor.h"

namespace troupe::kernels {

// y[n] = tokens_weight[tokens[n]] (+ positions_weight[positions[n]])
struct Embedding {
  device::TensorView y;                        // [N, C]  bf16 | fp32
  device::ConstTensorView tokens;              // [N]     int32 in [0, V)
  device::ConstTensorView weight;              // [V, C]  same type as y
  device::ConstTensorView positions;           // [N]     int32, or none
  device::ConstTensorView position_weight;     // [P, C]  or none
};

// dweight[tokens[n]] += dy[n], in order of n. Rows are shared out among threads by channel, so the order holds.
struct EmbeddingWeightGradient {
  device::TensorView dweight;                  // [V, C]  fp32
  device::TensorView dposition_weight;         // [P, C]  fp32, or none
  device::ConstTensorView tokens;              // [N]
  device::ConstTensorView positions;           // [N] or none
  device::ConstTensorView dy;                  // [N, C]
};

}  // namespace troupe::kernels
