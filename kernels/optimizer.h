// AdamW, and the squared norm it is clipped by.
#pragma once

#include "runtime/device/tensor.h"

namespace troupe::kernels {

// Loshchilov & Hutter 2019, algorithm 2 with decoupled decay lr * weight_decay (as torch.optim.AdamW):
//   g = gradient * gradient_scale;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   master -= lr weight_decay master;  master -= lr (m / (1 - b1^step)) / (sqrt(v / (1 - b2^step)) + epsilon).
// Then weight = cast(master) and, where clear_gradient, gradient = 0. All in fp32.
struct AdamW {
  device::TensorView master;       // [n] fp32
  device::TensorView m;            // [n] fp32
  device::TensorView v;            // [n] fp32
  device::TensorView gradient;     // [n] fp32
  device::TensorView weight;       // [n] bf16 | fp32: what the model computes with; may be the same memory as master
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0;
  float gradient_scale = 1;        // 1 / tokens * clip factor
  std::int64_t step = 1;           // 1 at the first update
  bool clear_gradient = true;
};

// chunks[i] = sum of x^2 over elements [i * kNormChunk, (i + 1) * kNormChunk), in double, in element order within fixed lanes: the same
// bits for any thread count. Chunks are folded by whoever collects them, in parameter order.
inline constexpr std::int64_t kNormChunk = 16384;
struct SquaredNorm {
  device::TensorView chunks;       // [ceil(n / kNormChunk)] fp64
  device::ConstTensorView x;       // [n] fp32
};

// total[0] = sum over chunks in order; count[0] = number of targets >= 0. Both doubles, read by the host when the event is done.
struct LossSum {
  device::TensorView total;        // [2] fp64: loss sum, token count
  device::ConstTensorView loss;    // [N] fp32
  device::ConstTensorView targets; // [N] int32
};

}  // namespace troupe::kernels
