// Products of a few rows read b once, from memory, unpacked: bound by its bytes.
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/isa/gemm_finish.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

// b stored by columns (b[n * stride + k]): dot products, four columns of b against kM rows of x at a time.
template <class T, std::int64_t kM>
void dots(const GemmFewRows& f, std::int64_t row, std::int64_t n) {
  const T* b = static_cast<const T*>(f.b.data);
  const std::int64_t columns = least(4, f.n_end - n);
  const T* at[4];
  for (std::int64_t j = 0; j < 4; ++j) at[j] = b + (n + least(j, columns - 1)) * f.b.stride;
  const float* x = f.x + row * f.k;
  F32 sums[kM][4] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= f.k; k += kLanes) {
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < 4; ++j) {
      const F32 w = load(at[j] + k);
      __builtin_prefetch(at[j] + k + 4 * f.b.stride, 0, 2);  // the next four columns of b
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kM; ++i) sums[i][j] = fma(w, load(x + i * f.k + k), sums[i][j]);
    }
  }
  for (std::int64_t i = 0; i < kM; ++i) {
    float total[4];
    for (std::int64_t j = 0; j < 4; ++j) {
      total[j] = sum(sums[i][j]);
      for (std::int64_t tail = k; tail < f.k; ++tail) total[j] += x[i * f.k + tail] * load_one(&at[j][tail]);
    }
    finish(f.output, total, 4, row + i, row + i + 1, n, n + columns);
  }
}

// b stored by rows: kM rows of y in registers, kV vectors wide.
template <class T, std::int64_t kM, std::int64_t kV>
void strip(const GemmFewRows& f, std::int64_t row, std::int64_t n) {
  constexpr std::int64_t kWide = kV * kLanes;
  const T* b = static_cast<const T*>(f.b.data) + n;
  const float* x = f.x + row * f.k;
  const std::int64_t columns = least(kWide, f.n_end - n);
  float total[kM][kWide] = {};
  if (columns == kWide) {
    F32 sums[kM][kV] = {};
    for (std::int64_t k = 0; k < f.k; ++k, b += f.b.stride) {
      // rows lie far apart: ahead by what is in flight
      const T* ahead = b + least(16, f.k - 1 - k) * f.b.stride;
      for (std::int64_t i = 0; i < kWide; i += 64 / static_cast<std::int64_t>(sizeof(T)))
        __builtin_prefetch(ahead + i);
      F32 w[kV];
#pragma GCC unroll 8
      for (std::int64_t j = 0; j < kV; ++j) w[j] = load(b + j * kLanes);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kM; ++i) {
#pragma GCC unroll 8
        for (std::int64_t j = 0; j < kV; ++j) sums[i][j] = fma(w[j], x[i * f.k + k], sums[i][j]);
      }
    }
    for (std::int64_t i = 0; i < kM; ++i) {
      for (std::int64_t j = 0; j < kV; ++j) store(total[i] + j * kLanes, sums[i][j]);
    }
  } else {
    for (std::int64_t k = 0; k < f.k; ++k, b += f.b.stride) {
      for (std::int64_t i = 0; i < kM; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) total[i][j] += load_one(&b[j]) * x[i * f.k + k];
      }
    }
  }
  finish(f.output, total[0], kWide, row, row + kM, n, n + columns);
}

// A strip of b is as wide for one row as for four, so that it is still in L2 for the next rows.
constexpr std::int64_t kStrip = 8 * kLanes;
template <class T, std::int64_t kM>
void strips(const GemmFewRows& f, std::int64_t row, std::int64_t n) {
  constexpr std::int64_t kV = kM == 1 ? 8 : kM == 2 ? 4 : 2;
  for (std::int64_t end = least(n + kStrip, f.n_end); n < end; n += kV * kLanes) strip<T, kM, kV>(f, row, n);
}

template <class T>
void few_rows_as(const GemmFewRows& f) {
  using Step = void (*)(const GemmFewRows&, std::int64_t row, std::int64_t n);
  static constexpr Step kDots[] = {nullptr, dots<T, 1>, dots<T, 2>, dots<T, 3>, dots<T, 4>};
  static constexpr Step kStrips[] = {nullptr, strips<T, 1>, strips<T, 2>, strips<T, 3>, strips<T, 4>};
  for (std::int64_t n = f.n_begin; n < f.n_end; n += f.b.transposed ? 4 : kStrip) {
    for (std::int64_t row = 0; row < f.m; row += 4) {
      (f.b.transposed ? kDots : kStrips)[least(4, f.m - row)](f, row, n);
    }
  }
}

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa>
void gemm_few_rows(const GemmFewRows& f) {
  (f.b.type == device::DType::kBF16 ? few_rows_as<bfloat16> : few_rows_as<float>)(f);
}

template void gemm_few_rows<kIsa>(const GemmFewRows&);

}  // namespace troupe::kernels::cpu
