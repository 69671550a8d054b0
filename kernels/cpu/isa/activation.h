// The loops of the non-linearities and of dropout, on plain pointers (activation.cc).
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/isa/dropout_mask.h"

namespace troupe::kernels::cpu {

// Rows [begin, end) of y [N, I] = silu(gate) * up, gate_up [N, 2I].
template <Isa, class T>
void swiglu_rows(T* y, const T* gate_up, std::int64_t inner, std::int64_t begin, std::int64_t end);
// dgate_up may be gate_up.
template <Isa, class T>
void swiglu_input_gradient_rows(T* dgate_up, const T* dy, const T* gate_up, std::int64_t inner,
                                std::int64_t begin, std::int64_t end);

// Elements [0, n).
template <Isa, class T>
void gelu_tanh(T* y, const T* x, std::int64_t n);
template <Isa, class T>
void gelu_exact(T* y, const T* x, std::int64_t n);
template <Isa, class T>
void gelu_tanh_input_gradient(T* dx, const T* dy, const T* x, std::int64_t n);
template <Isa, class T>
void gelu_exact_input_gradient(T* dx, const T* dy, const T* x, std::int64_t n);

// y = kept ? x * scale : 0, + residual where not null, for elements [0, n) that draw words first_word ...
template <Isa, class T>
void dropout_elements(T* y, const T* x, const T* residual, std::int64_t n, const DropoutMask& mask,
                      std::uint64_t first_word);

}  // namespace troupe::kernels::cpu
