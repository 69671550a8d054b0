// The packed matrix product's inner parts, compiled once per instruction set (isa/gemm_panel.cc): packing,
// the register tile, the epilogue, and a product for a handful of rows. Who cuts the work for the team is
// gemm.cc.
//
// Operands are bf16 or fp32 in memory and become fp32 while they are packed, so bf16 costs no extra pass.
// Products and sums are fp32 in ascending k, whatever the cut: the bits do not depend on the number of
// threads.
//
// Threads: every function works on what it is given and touches nothing else. Owns nothing. Errors: none.
// Invariants: any m, n, k >= 1, any alignment (Gemm.HandlesEverySizeAndLayout*).
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "runtime/device/dtype.h"

namespace troupe::kernels::cpu {

// Element (row, column) is data[row * stride + column], or data[column * stride + row] where transposed.
struct GemmOperand {
  const void* data = nullptr;
  device::DType type = device::DType::kF32;
  std::int64_t stride = 0;
  bool transposed = false;
};

// Where a product goes: rounded to `type`, or fp32. Optional terms are added in fp32 before rounding.
struct GemmOutput {
  void* data = nullptr;
  device::DType type = device::DType::kF32;
  std::int64_t stride = 0;
  const void* bias = nullptr;      // [n], same type
  const void* residual = nullptr;  // same type and stride; may be `data`
};

// Rows [m_begin, m_end) x columns [n_begin, n_end) of one product over depth [k_begin, k_end).
struct GemmBlock {
  GemmOperand a;
  std::int64_t m_begin, m_end, n_begin, n_end, k_begin, k_end;
  const float* packed_b;  // pack_b of columns [packed_n_begin, packed_n_end) and the same depth
  std::int64_t packed_n_begin, packed_n_end;
  float* packed_a;  // packed_a_floats of scratch, this member's
  float* sums;      // fp32 partial sums, element (m, n) at sums[(m - sums_m) * stride + n - sums_n] ...
  std::int64_t sums_m, sums_n, sums_stride;
  bool
      sums_are_reused;  // ... or, where set, sums holds block_rows rows only and starts anew for each of them
  bool accumulate;      // sums hold something already
  const GemmOutput*
      output;  // written after the last depth; null while depth is left, or where sums are the output
};

// y[m, n] = sum_k x[m, k] op(b)[k, n] for few rows, b read once, straight from memory; columns [n_begin,
// n_end).
struct GemmFewRows {
  const float* x;  // [m, k]
  std::int64_t m, k;
  GemmOperand b;  // [k, n]
  std::int64_t n_begin, n_end;
  GemmOutput output;
};

struct GemmKernels {
  std::int64_t panel_rows;  // of the register tile
  std::int64_t panel_columns;
  std::int64_t block_rows;   // of A packed at a time: half of L2
  std::int64_t block_depth;  // panel_columns x block_depth of B: half of L1
  std::int64_t packed_a_floats;
  // Columns [n_begin, n_end) x depth [k_begin, k_end) of op(B), as panels; `part` of `parts` writes its share
  // of the panels.
  void (*pack_b)(float* packed, const GemmOperand& b, std::int64_t n_begin, std::int64_t n_end,
                 std::int64_t k_begin, std::int64_t k_end, int part, int parts);
  void (*block)(const GemmBlock&);
  void (*few_rows)(const GemmFewRows&);
  // Rows [m_begin, m_end), columns [0, n): data = round(sums + bias + residual).
  void (*finish)(const GemmOutput&, const float* sums, std::int64_t sums_stride, std::int64_t m_begin,
                 std::int64_t m_end, std::int64_t n_begin, std::int64_t n_end);
  void (*widen)(float* to, const void* from, device::DType type, std::int64_t count);
  // sums[n] += the sum over `rows` rows of a[row, n], for columns [n_begin, n_end).
  void (*add_column_sums)(float* sums, const GemmOperand& a, std::int64_t rows, std::int64_t n_begin,
                          std::int64_t n_end);
};

template <Isa>
void gemm_few_rows(const GemmFewRows& product);

template <Isa isa>
const GemmKernels& gemm_kernels();
template <>
const GemmKernels& gemm_kernels<Isa::kBaseline>();
template <>
const GemmKernels& gemm_kernels<Isa::kAvx2>();
template <>
const GemmKernels& gemm_kernels<Isa::kAvx512>();

}  // namespace troupe::kernels::cpu
