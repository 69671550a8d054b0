// The language-model head fused with its loss: logits = x W^T exist for one chunk of tokens at a time, never all B x T x V.
//
// loss = sum over n with targets[n] >= 0 of (log sum_v exp(logits[n, v]) - logits[n, targets[n]]), v over the first `vocabulary`
// rows of W; padding rows take no part and get no gradient. Gradients are of that *sum*: whoever knows the global token count
// divides once, at the end. A target of -1 is masked.
#pragma once

#include "runtime/device/tensor.h"
#include "kernels/matmul.h"

namespace troupe::kernels {

struct CrossEntropyHead {
  device::TensorView loss;             // [N]     fp32, per token, 0 where masked
  device::ConstTensorView x;           // [N, C]  bf16 | fp32
  device::ConstTensorView weight;      // [Vp, C] same type
  device::ConstTensorView targets;     // [N]     int32, -1 masked, else in [0, vocabulary)
  std::int64_t vocabulary = 0;         // <= Vp
  device::TensorView dx;               // [N, C]  same type as x, or none: forward only
  device::TensorView dweight;          // [Vp, C] fp32, accumulated; none where dx is none
  std::int64_t chunk_tokens = 256;     // logits of this many tokens at a time, in the stream's scratch
};

// Bytes of scratch the op needs in the worst filling on a stream with `threads` compute threads; part of the plan.
std::int64_t cross_entropy_scratch_bytes(std::int64_t chunk_tokens, std::int64_t padded_vocabulary, std::int64_t channels,
                                         int threads = 16);

// logits = x W^T for a few rows, as fp32: generation and tests.
struct Logits {
  device::TensorView logits;           // [N, Vp] fp32
  device::ConstTensorView x;           // [N, C]
  device::ConstTensorView weight;      // [Vp, C]
};

}  // namespace troupe::kernels
