// Rotary position embedding, half-split as Hugging Face has it: out = x cos + rotate_half(x) sin, rotate_half(x) =
// [-x2, x1]. Su et al. 2021, eq. 34, with dim i paired with i + D/2.
#pragma once

#include "runtime/device/tensor.h"

namespace troupe::kernels {

// In place on the q and k heads of a fused qkv row [H q | G k | G v]; v is untouched. Angles in fp32:
// position * inverse_frequency[i]. `inverse` rotates back: the input gradient.
struct Rope {
  device::TensorView qkv;                     // [N, (H + 2G) D]  bf16 | fp32
  device::ConstTensorView positions;          // [N]      int32
  device::ConstTensorView inverse_frequency;  // [D / 2]  fp32; any scaling (Llama-3) is already in it
  int q_heads = 0, kv_heads = 0;
  bool inverse = false;
};

}  // namespace troupe::kernels
