// Packing, register tile and epilogue of gemm_kernels.h. The loop order around them is Goto & van de Geijn
// 2008 (figure 4): a micro-panel of B stays in L1, a block of A in L2, the packed B in L3.
#include "kernels/cpu/gemm_kernels.h"
#include "kernels/cpu/isa/gemm_finish.h"
#include "kernels/cpu/isa/tile.h"

namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

using device::DType;

constexpr std::int64_t kRows = kTileRows, kColumns = kTileColumns;
// kDepth x kColumns floats of B are half of a 32 KiB L1; kBlockRows x kDepth of A a third of a 512 KiB L2.
constexpr std::int64_t kDepth = kLanes >= 16 ? 192 : 256;
constexpr std::int64_t kBlockRows = 144 / kRows * kRows;
constexpr std::int64_t kRowStride =
    kDepth + 8;  // rows of a packed panel of A: not a multiple of the L1's set stride
constexpr std::int64_t kPackedA = kBlockRows * kRowStride + kLanes;

// A stored by rows: each panel is kRows rows of kRowStride floats, rows past m are zero.
template <class T>
void pack_a_rows(float* packed, const T* a, std::int64_t stride, std::int64_t m, std::int64_t depth) {
  for (std::int64_t row = 0; row < round_up(m, kRows); ++row, packed += kRowStride) {
    if (row < m) {
      widen_row(packed, a + row * stride, depth);
    } else {
      for (std::int64_t k = 0; k < depth; ++k) packed[k] = 0.0f;
    }
  }
}

// A stored by columns (a[k * stride + row]): each panel is `depth` times kRows floats. A store is a whole
// vector wide; what it leaves behind its kRows floats is overwritten by the next one.
template <class T>
void pack_a_columns(float* packed, const T* a, std::int64_t stride, std::int64_t m, std::int64_t depth) {
  static_assert(kRows <= 2 * kLanes);
  for (std::int64_t row = 0; row < m; row += kRows, packed += kRows * kRowStride) {
    const T* from = a + row;
    if (m - row >= 2 * kLanes) {
      for (std::int64_t k = 0; k < depth; ++k) {
        store(packed + k * kRows, load(from + k * stride));
        if constexpr (kRows > kLanes) store(packed + k * kRows + kLanes, load(from + k * stride + kLanes));
      }
    } else {
      const std::int64_t valid = least(kRows, m - row);
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t i = 0; i < kRows; ++i) {
          packed[k * kRows + i] = i < valid ? load_one(&from[k * stride + i]) : 0.0f;
        }
      }
    }
  }
}

template <class T>
void pack_a(float* packed, const GemmOperand& a, std::int64_t row, std::int64_t k, std::int64_t m,
            std::int64_t depth) {
  const T* data = static_cast<const T*>(a.data);
  if (a.transposed) {
    pack_a_columns(packed, data + k * a.stride + row, a.stride, m, depth);
  } else {
    pack_a_rows(packed, data + row * a.stride + k, a.stride, m, depth);
  }
}

template <class T>
void pack_b_as(float* packed, const GemmOperand& b, std::int64_t n_begin, std::int64_t n_end,
               std::int64_t k_begin, std::int64_t k_end, int part, int parts) {
  const std::int64_t padded = round_up(n_end - n_begin, kColumns), panels = padded / kColumns;
  const T* data = static_cast<const T*>(b.data);
  for (std::int64_t panel = panels * part / parts; panel < panels * (part + 1) / parts; ++panel) {
    const std::int64_t n = n_begin + panel * kColumns;
    for (std::int64_t k = k_begin; k < k_end; k += kDepth) {
      const std::int64_t depth = least(kDepth, k_end - k);
      pack_panel(packed + (k - k_begin) * padded + panel * kColumns * depth,
                 data + (b.transposed ? n * b.stride + k : k * b.stride + n), b.stride, b.transposed,
                 n_end - n, depth);
    }
  }
}

void pack_b(float* packed, const GemmOperand& b, std::int64_t n_begin, std::int64_t n_end,
            std::int64_t k_begin, std::int64_t k_end, int part, int parts) {
  (b.type == DType::kBF16 ? pack_b_as<bfloat16> : pack_b_as<float>)(packed, b, n_begin, n_end, k_begin, k_end,
                                                                    part, parts);
}

// The whole tiles go straight to the sums; at the edges a tile is computed aside and its valid part moved.
template <std::int64_t kRowStep, std::int64_t kDepthStep>
void tile(const float* a, const float* b, float* sums, std::int64_t stride, std::int64_t depth,
          std::int64_t rows, std::int64_t columns, bool accumulate) {
  // needed when the depth is done; without this the tile waits for L3 (a tenth of the rate)
  for (std::int64_t i = 0; i < least(kRows, rows); ++i) __builtin_prefetch(sums + i * stride, 1, 3);
  if (rows >= kRows && columns >= kColumns) {
    multiply_tile<kRows, kTileVectors>(a, kRowStep, kDepthStep, b, kColumns, sums, stride, depth, accumulate);
    return;
  }
  float aside[kRows * kColumns];
  multiply_tile<kRows, kTileVectors>(a, kRowStep, kDepthStep, b, kColumns, aside, kColumns, depth, false);
  for (std::int64_t i = 0; i < least(rows, kRows); ++i) {
    for (std::int64_t j = 0; j < least(columns, kColumns); ++j) {
      sums[i * stride + j] =
          accumulate ? sums[i * stride + j] + aside[i * kColumns + j] : aside[i * kColumns + j];
    }
  }
}

void block(const GemmBlock& b) {
  const std::int64_t padded = round_up(b.packed_n_end - b.packed_n_begin, kColumns);
  // equal blocks, so that the last one is not a sliver
  const std::int64_t blocks = (b.m_end - b.m_begin + kBlockRows - 1) / kBlockRows;
  const std::int64_t block_rows = blocks ? round_up((b.m_end - b.m_begin + blocks - 1) / blocks, kRows) : 0;
  for (std::int64_t m = b.m_begin; m < b.m_end; m += block_rows) {
    const std::int64_t rows = least(block_rows, b.m_end - m);
    float* sums = b.sums + (b.sums_are_reused ? 0 : (m - b.sums_m) * b.sums_stride) + (b.n_begin - b.sums_n);
    for (std::int64_t k = b.k_begin; k < b.k_end; k += kDepth) {
      const std::int64_t depth = least(kDepth, b.k_end - k);
      (b.a.type == DType::kBF16 ? pack_a<bfloat16> : pack_a<float>)(b.packed_a, b.a, m, k, rows, depth);
      const bool accumulate = b.accumulate || k > b.k_begin;
      for (std::int64_t n = b.n_begin; n < b.n_end; n += kColumns) {
        const float* packed_b = b.packed_b + (k - b.k_begin) * padded + (n - b.packed_n_begin) * depth;
        // the panel after this one, to L2, a part with every tile (an eighth of the rate)
        const auto* next = reinterpret_cast<const char*>(packed_b + kColumns * depth);
        const std::int64_t lines = kColumns * depth / 16 * kRows / rows + 1;
        for (std::int64_t i = 0; i < rows; i += kRows) {
          for (std::int64_t line = 0; line < lines; ++line, next += 64) __builtin_prefetch(next, 0, 2);
          (b.a.transposed ? tile<1, kRows> : tile<kRowStride, 1>)(b.packed_a + i * kRowStride, packed_b,
                                                                  sums + i * b.sums_stride + (n - b.n_begin),
                                                                  b.sums_stride, depth, rows - i, b.n_end - n,
                                                                  accumulate);
        }
      }
    }
    if (b.output) finish(*b.output, sums, b.sums_stride, m, m + rows, b.n_begin, b.n_end);
  }
}

void widen(float* to, const void* from, DType type, std::int64_t count) {
  if (type == DType::kBF16) {
    widen_row(to, static_cast<const bfloat16*>(from), count);
  } else {
    widen_row(to, static_cast<const float*>(from), count);
  }
}

// Rows in ascending order, a vector of columns at a time.
template <class T>
void add_column_sums_as(float* sums, const GemmOperand& a, std::int64_t rows, std::int64_t begin,
                        std::int64_t end) {
  const T* data = static_cast<const T*>(a.data) + begin;
  constexpr std::int64_t kWide = 8;
  std::int64_t n = 0;
  for (; n + kWide * kLanes <= end - begin; n += kWide * kLanes) {
    F32 total[kWide] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < kWide; ++i) total[i] += load(data + row * a.stride + n + i * kLanes);
    }
    for (std::int64_t i = 0; i < kWide; ++i)
      store(sums + begin + n + i * kLanes, load(sums + begin + n + i * kLanes) + total[i]);
  }
  blocks(
      end - begin - n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        F32 total = {};
        for (std::int64_t row = 0; row < rows; ++row) total += load(data + row * a.stride + n + i, lanes);
        store(sums + begin + n + i, load(sums + begin + n + i, lanes) + total, lanes);
      });
}

void add_column_sums(float* sums, const GemmOperand& a, std::int64_t rows, std::int64_t begin,
                     std::int64_t end) {
  (a.type == DType::kBF16 ? add_column_sums_as<bfloat16> : add_column_sums_as<float>)(sums, a, rows, begin,
                                                                                      end);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA

namespace troupe::kernels::cpu {

template <>
const GemmKernels& gemm_kernels<TROUPE_ISA::kIsa>() {
  using namespace TROUPE_ISA;
  static constexpr GemmKernels kKernels{.panel_rows = kRows,
                                        .panel_columns = kColumns,
                                        .block_rows = kBlockRows,
                                        .block_depth = kDepth,
                                        .packed_a_floats = kPackedA,
                                        .pack_b = pack_b,
                                        .block = block,
                                        .few_rows = gemm_few_rows<TROUPE_ISA::kIsa>,
                                        .finish = finish,
                                        .widen = widen,
                                        .add_column_sums = add_column_sums};
  return kKernels;
}

}  // namespace troupe::kernels::cpu
