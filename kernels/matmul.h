// Matrix products of a linear layer, y = x W^T + b, and its two backward products, kept apart so that a schedule can delay
// the weight gradient.
//
// W is [K_out, K_in] as Hugging Face's Linear has it, or [K_in, K_out] (GPT-2's Conv1D) with `layout`. Products accumulate in
// fp32 whatever the type. Parity: kernels/tolerance.h. Bitwise deterministic for one build, instruction set and thread count.
#pragma once

#include "runtime/device/stream.h"
#include "runtime/device/tensor.h"

namespace troupe::kernels {

using device::ConstTensorView;
using device::Stream;
using device::TensorView;

enum class WeightLayout { kOutIn, kInOut };

struct Matmul {
  TensorView y;              // [N, O]  bf16 | fp32; must not alias an input, except that y may be `residual`
  ConstTensorView x;         // [N, I]  same type as y
  ConstTensorView weight;    // [O, I] or [I, O]  same type
  ConstTensorView bias;      // [O]     same type, or none
  ConstTensorView residual;  // [N, O]  same type, or none: y = x W^T + b + residual, added before rounding
  WeightLayout layout = WeightLayout::kOutIn;
};

struct MatmulInputGradient {
  TensorView dx;             // [N, I]  bf16 | fp32
  ConstTensorView dy;        // [N, O]  same type
  ConstTensorView weight;    // as in Matmul
  WeightLayout layout = WeightLayout::kOutIn;
};

// dweight += dy^T x, dbias += column sums of dy. Called in micro-batch order: the order of accumulation is the caller's.
struct MatmulWeightGradient {
  TensorView dweight;        // shape of weight, fp32
  TensorView dbias;          // [O] fp32, or none
  ConstTensorView dy;        // [N, O]  bf16 | fp32
  ConstTensorView x;         // [N, I]  same type as dy
  WeightLayout layout = WeightLayout::kOutIn;
};

}  // namespace troupe::kernels
