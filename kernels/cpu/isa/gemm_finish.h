// The end of a matrix product: bias and residual are added to its fp32 sums, then rounded to the output.
#pragma once

#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/isa/tile.h"

namespace troupe::kernels::cpu::TROUPE_ISA {

template <class T>
void finish_as(const GemmOutput& out, const float* sums, std::int64_t sums_stride, std::int64_t m_begin,
               std::int64_t m_end, std::int64_t n_begin, std::int64_t n_end) {
  const T* bias = static_cast<const T*>(out.bias);
  for (std::int64_t row = m_begin; row < m_end; ++row, sums += sums_stride) {
    T* to = static_cast<T*>(out.data) + row * out.stride;
    const T* residual = out.residual ? static_cast<const T*>(out.residual) + row * out.stride : nullptr;
    blocks(
        n_end - n_begin, [&](std::int64_t n, auto lanes) __attribute__((always_inline)) {
          F32 value = load(sums + n, lanes);
          if (bias) value += load(bias + n_begin + n, lanes);
          if (residual) value += load(residual + n_begin + n, lanes);
          store(to + n_begin + n, value, lanes);
        });
  }
}

inline void finish(const GemmOutput& out, const float* sums, std::int64_t sums_stride, std::int64_t m_begin,
                   std::int64_t m_end, std::int64_t n_begin, std::int64_t n_end) {
  (out.type == device::DType::kBF16 ? finish_as<bfloat16> : finish_as<float>)(out, sums, sums_stride, m_begin,
                                                                              m_end, n_begin, n_end);
}

}  // namespace troupe::kernels::cpu::TROUPE_ISA
