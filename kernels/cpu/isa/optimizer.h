// The loops of the optimizer and of the sums of a step, on plain pointers (optimizer.cc).
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace troupe::kernels::cpu {

// kernels/optimizer.h AdamW, with what is the same for all elements worked out.
template <class T>
struct AdamWElements {
  float* master = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* gradient = nullptr;
  T* weight = nullptr;  // may be master
  float gradient_scale = 1;
  float beta1 = 0, one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
  float decay = 1;                // 1 - lr weight_decay
  float rate = 0;                 // lr / (1 - b1^step)
  float inverse_correction2 = 0;  // 1 / (1 - b2^step)
  float epsilon = 0;
  bool clear_gradient = true;
};
template <Isa, class T>
void adamw_elements(const AdamWElements<T>& elements, std::int64_t begin, std::int64_t end);

// Sums in 16 lanes of double, element i in lane i % 16, the lanes folded pairwise: the same bits for every
// instruction set.
template <Isa>
double sum_of_squares(const float* x, std::int64_t n);
template <Isa>
double sum_in_double(const float* x, std::int64_t n);

}  // namespace troupe::kernels::cpu
