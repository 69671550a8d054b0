// The functions of kernels/cpu/isa/simd.h on arrays, compiled for every instruction set: what the tests call.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "runtime/device/dtype.h"

namespace troupe::kernels::cpu {

// Element-wise over n elements by way of `blocks`; sums and maxima over all lanes of whole vectors.
struct SimdProbe {
  int lanes = 0;
  void (*exp)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*exp_within)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*tanh)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*erf)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*sine)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*cosine)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*sqrt)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*reciprocal)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*round_to_bf16)(float* y, const float* x, std::int64_t n) = nullptr;  // rounded_to<bfloat16>
  void (*copy)(float* y, const float* x, std::int64_t n) = nullptr;
  void (*narrow)(device::bfloat16* y, const float* x, std::int64_t n) = nullptr;
  void (*widen)(float* y, const device::bfloat16* x, std::int64_t n) = nullptr;
  void (*copy_bf16)(device::bfloat16* y, const device::bfloat16* x, std::int64_t n) = nullptr;
  float (*sum)(const float* x) = nullptr;  // of `lanes` elements
  float (*largest)(const float* x) = nullptr;
  float (*sum_kept)(const float* x,
                    int count) = nullptr;  // of the lanes that keep() keeps of `lanes` elements
};

template <Isa>
SimdProbe make_simd_probe();

}  // namespace troupe::kernels::cpu
