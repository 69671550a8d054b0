// RMSNorm, LayerNorm, and the per-head RMSNorm of queries and keys. Statistics and sums in fp32.
//
// The weight gradients are separate operations: they need the layer's output gradient kept until then.
#pragma once

#include "runtime/device/stream.h"
#include "runtime/device/tensor.h"

namespace troupe::kernels {

using device::ConstTensorView;
using device::TensorView;

// y = cast(x / rms(x)) * weight, rms over the last dim: sqrt(mean(x^2) + epsilon). Zhang & Sennrich 2019, eq. 4. The
// normalised value is rounded to x's type before the weight, as Hugging Face's Llama does.
struct RmsNorm {
  TensorView y;              // [N, C]  bf16 | fp32
  ConstTensorView x;         // [N, C]  same type as y
  ConstTensorView weight;    // [C]     same type as y
  TensorView inverse_rms;    // [N]     fp32, kept for backward
  float epsilon = 1e-5f;
};

// dx = inverse_rms * (dy w - xhat mean(dy w xhat)) [+ residual]
struct RmsNormInputGradient {
  TensorView dx;             // [N, C]  may alias dy or residual
  ConstTensorView dy;        // [N, C]
  ConstTensorView x;         // [N, C]
  ConstTensorView weight;    // [C]
  ConstTensorView inverse_rms;  // [N] fp32
  ConstTensorView residual;  // [N, C] or none: the gradient that passes beside the norm, added before rounding
};

// dweight += sum over rows of dy * xhat, rows in fixed chunks, chunks in order.
struct RmsNormWeightGradient {
  TensorView dweight;        // [C]     fp32
  ConstTensorView dy;        // [N, C]
  ConstTensorView x;         // [N, C]
  ConstTensorView inverse_rms;  // [N]  fp32
};

// y = (x - mean) / sqrt(var + epsilon) * weight + bias. Ba et al. 2016; var is the biased one.
struct LayerNorm {
  TensorView y;              // [N, C]  bf16 | fp32
  ConstTensorView x;         // [N, C]
  ConstTensorView weight;    // [C]
  ConstTensorView bias;      // [C]
  TensorView mean;           // [N]     fp32, kept
  TensorView inverse_std;    // [N]     fp32, kept
  float epsilon = 1e-5f;
};

struct LayerNormInputGradient {
  TensorView dx;             // [N, C]  may alias dy or residual
  ConstTensorView dy;        // [N, C]
  ConstTensorView x;         // [N, C]
  ConstTensorView weight;    // [C]
  ConstTensorView mean;      // [N] fp32
  ConstTensorView inverse_std;  // [N] fp32
  ConstTensorView residual;  // [N, C] or none, added before rounding
};

struct LayerNormWeightGradient {
  TensorView dweight;        // [C]     fp32
  TensorView dbias;          // [C]     fp32
  ConstTensorView dy;        // [N, C]
  ConstTensorView x;         // [N, C]
  ConstTensorView mean;      // [N] fp32
  ConstTensorView inverse_std;  // [N] fp32
};

// RMSNorm over each head of q and k inside a fused qkv row [H q heads | G k heads | G v heads] (Qwen3). v is copied.
struct QkNorm {
  TensorView y;              // [N, (H + 2G) D]
  ConstTensorView x;         // [N, (H + 2G) D]  must not alias y
  ConstTensorView q_weight;  // [D]
  ConstTensorView k_weight;  // [D]
  TensorView inverse_rms;    // [N, H + G]  fp32, kept
  int q_heads = 0, kv_heads = 0;
  float epsilon = 1e-6f;
};

struct QkNormInputGradient {
  TensorView dx;             // [N, (H + 2G) D]  may alias dy
  ConstTensorView dy;        // [N, (H + 2G) D]
  ConstTensorView x;         // [N, (H + 2G) D]
  ConstTensorView q_weight;  // [D]
  ConstTensorView k_weight;  // [D]
  ConstTensorView inverse_rms;  // [N, H + G] fp32
  int q_heads = 0, kv_heads = 0;
};

struct QkNormWeightGradient {
  TensorView dq_weight;      // [D]     fp32, accumulated
  TensorView dk_weight;      // [D]     fp32, accumulated
  ConstTensorView dy;        // [N, (H + 2G) D]
  ConstTensorView x;         // [N, (H + 2G) D]
  ConstTensorView inverse_rms;  // [N, H + G] fp32
  int q_heads = 0, kv_heads = 0;
};

}  // namespace troupe::kernels
