// The row loop between the three products of the loss head, on plain pointers. Compiled once per instruction
// set (cross_entropy.cc); called by kernels/cpu/cross_entropy.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace troupe::kernels::cpu {

// loss = largest + log(sum) - target_logit; sum is of exp(logit - largest).
struct SoftmaxRow {
  float largest, sum, target_logit;
};

// Reads logits[0, vocabulary). With `gradient` the row becomes softmax - onehot(target), zero in [vocabulary,
// padded), as T in the front of the same memory; without it the row is left as anything.
template <Isa, class T>
SoftmaxRow softmax_row(float* logits, std::int64_t vocabulary, std::int64_t padded, std::int64_t target,
                       bool gradient);

}  // namespace troupe::kernels::cpu
