// Element-wise non-linearities and dropout. Computed in fp32, rounded once.
#pragma once

#include "runtime/base/rng.h"
#include "runtime/device/tensor.h"

namespace troupe::kernels {

// y = silu(gate) * up, silu(x) = x / (1 + exp(-x)). Shazeer 2020, eq. 6. gate_up holds both in one row: [I gate | I up].
struct Swiglu {
  device::TensorView y;              // [N, I]   bf16 | fp32
  device::ConstTensorView gate_up;   // [N, 2I]
};

struct SwigluInputGradient {
  device::TensorView dgate_up;       // [N, 2I]  may alias gate_up
  device::ConstTensorView dy;        // [N, I]
  device::ConstTensorView gate_up;   // [N, 2I]
};

enum class GeluKind { kTanh, kExact };

// kTanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); kExact: 0.5 x (1 + erf(x / sqrt 2)). Hendrycks & Gimpel 2016.
struct Gelu {
  device::TensorView y;              // [N, C]   may alias x
  device::ConstTensorView x;         // [N, C]
  GeluKind kind = GeluKind::kTanh;
};

struct GeluInputGradient {
  device::TensorView dx;             // [N, C]   may alias dy
  device::ConstTensorView dy;        // [N, C]
  device::ConstTensorView x;         // [N, C]
  GeluKind kind = GeluKind::kTanh;
};

// Sample ids, 64 bits each, as two int32: the low half, then the high one.
inline void put_sample_id(std::int32_t* ids, std::int64_t at, std::int64_t id) {
  ids[2 * at] = static_cast<std::int32_t>(id);
  ids[2 * at + 1] = static_cast<std::int32_t>(id >> 32);
}
inline std::int64_t sample_id(const std::int32_t* ids, std::int64_t at) {
  return std::int64_t{ids[2 * at + 1]} << 32 | std::int64_t{static_cast<std::uint32_t>(ids[2 * at])};
}

// y = keep(i) ? x / (1 - p) : 0, plus residual where given. Element (row, c) of row r draws word r % rows_per_sample * C + c
// of RandomStream{seed, step, sample id of r / rows_per_sample, layer, use}; it is kept when word >= p * 2^32. So the mask is the same
// in any plan, in recomputation and in backward (which is this same op without residual).
struct Dropout {
  device::TensorView y;                 // [N, C]  bf16 | fp32, may alias x or residual
  device::ConstTensorView x;            // [N, C]
  device::ConstTensorView residual;     // [N, C] or none
  device::ConstTensorView sample_ids;   // [N / rows_per_sample, 2] int32, as put_sample_id writes them
  std::int64_t rows_per_sample = 1;     // T
  RandomKey key;                        // its `sample` is ignored
  float probability = 0.0f;             // [0, 1)
};

}  // namespace troupe::kernels
