#include "kernels/cpu/gemm.h"

#include <algorithm>

#include "kernels/cpu/onednn.h"

namespace troupe::kernels::cpu {
namespace {

using device::DType;
using device::StreamContext;

// Packed B stays in L3 together with the parts of A and C that pass by.
constexpr std::int64_t kPackedBFloats = 2 << 20;
constexpr std::int64_t kMaxColumns = 1536;
// Rows whose fp32 sums are kept while the depth is walked in several steps.
constexpr std::int64_t kSumRows = 2048;

// See gemm_path.
constexpr std::int64_t kSmallOutput = 1 << 20;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// `count` cut into equal steps of at most `most`, each a multiple of `grain`, which divides `most`.
std::int64_t step_of(std::int64_t count, std::int64_t most, std::int64_t grain) {
  if (count == 0) return grain;
  const std::int64_t steps = (count + most - 1) / most;
  return rounded_up((count + steps - 1) / steps, grain);
}
std::int64_t multiple_below(std::int64_t value, std::int64_t grain) {
  return std::max(value / grain * grain, grain);
}

struct PanelPlan {
  std::int64_t rows, columns, depth;  // of one step
  std::int64_t packed_b_floats, packed_a_floats, sums_floats, sums_floats_per_member;
  std::int64_t bytes(int threads) const {
    return 4 * (packed_b_floats + threads * (packed_a_floats + sums_floats_per_member) + sums_floats) +
           64 * (threads + 2);
  }
};

PanelPlan panel_plan(const GemmKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                     bool sums_are_output) {
  PanelPlan plan{};
  const std::int64_t narrow = std::clamp<std::int64_t>(n, kernels.panel_columns, 768);
  plan.depth = step_of(k, multiple_below(kPackedBFloats / narrow, kernels.block_depth), kernels.block_depth);
  const std::int64_t widest = std::min(kPackedBFloats / plan.depth, kMaxColumns);
  plan.columns = step_of(n, multiple_below(widest, kernels.panel_columns), kernels.panel_columns);
  const bool deep = plan.depth < k;
  plan.rows = deep && !sums_are_output
                  ? step_of(m, multiple_below(kSumRows, kernels.panel_rows), kernels.panel_rows)
                  : m;
  plan.packed_b_floats = plan.columns * plan.depth;
  plan.packed_a_floats = rounded_up(kernels.packed_a_floats, 16);
  if (!sums_are_output) {
    (deep ? plan.sums_floats : plan.sums_floats_per_member) =
        (deep ? plan.rows : kernels.block_rows) * plan.columns;
  }
  return plan;
}

class Scratch {
 public:
  Scratch(StreamContext& context, std::int64_t offset_bytes, std::int64_t needed_bytes)
      : at_(context.scratch + rounded_up(offset_bytes, 64)) {
    TROUPE_CHECK(rounded_up(offset_bytes, 64) + needed_bytes <= context.scratch_bytes)
        << "a matrix product needs " << offset_bytes + needed_bytes << " bytes of scratch, the stream has "
        << context.scratch_bytes;
  }
  float* floats(std::int64_t count) {
    auto* taken = reinterpret_cast<float*>(at_);
    at_ += rounded_up(count * 4, 64);
    return taken;
  }

 private:
  std::byte* at_;
};

void by_panels(const GemmKernels& kernels, StreamContext& context, const Gemm& g, std::int64_t offset_bytes) {
  // the output itself holds the sums where that loses nothing
  const bool residual_is_output = g.c.residual == g.c.data;
  const bool sums_are_output = g.c.type == DType::kF32 && !(g.c.residual && residual_is_output);
  const PanelPlan plan = panel_plan(kernels, g.m, g.n, g.k, sums_are_output);
  const int members = context.team.size();
  Scratch scratch(context, offset_bytes, plan.bytes(members));
  float* packed_b = scratch.floats(plan.packed_b_floats);
  float* packed_a = scratch.floats(members * plan.packed_a_floats);
  float* sums = scratch.floats(plan.sums_floats + members * plan.sums_floats_per_member);
  const bool needs_finish = !sums_are_output || g.c.bias || g.c.residual;

  for (std::int64_t m = 0; m < g.m; m += plan.rows) {
    const std::int64_t m_end = std::min(m + plan.rows, g.m);
    for (std::int64_t n = 0; n < g.n; n += plan.columns) {
      const std::int64_t n_end = std::min(n + plan.columns, g.n);
      const GemmGrid grid =
          GemmGrid::of(m_end - m, n_end - n, kernels.panel_rows, kernels.panel_columns, members);
      for (std::int64_t k = 0; k < g.k; k += plan.depth) {
        const std::int64_t k_end = std::min(k + plan.depth, g.k);
        context.team.run(
            [&](int member, int parts) { kernels.pack_b(packed_b, g.b, n, n_end, k, k_end, member, parts); });
        context.team.run([&](int member, int) {
          const auto rows = GemmGrid::part(m_end - m, kernels.panel_rows, member / grid.columns, grid.rows);
          const auto columns =
              GemmGrid::part(n_end - n, kernels.panel_columns, member % grid.columns, grid.columns);
          if (rows.begin >= rows.end || columns.begin >= columns.end) return;
          GemmBlock block{.a = g.a,
                          .m_begin = m + rows.begin,
                          .m_end = m + rows.end,
                          .n_begin = n + columns.begin,
                          .n_end = n + columns.end,
                          .k_begin = k,
                          .k_end = k_end,
                          .packed_b = packed_b,
                          .packed_n_begin = n,
                          .packed_n_end = n_end,
                          .packed_a = packed_a + member * plan.packed_a_floats,
                          .sums = sums,
                          .sums_m = m,
                          .sums_n = n,
                          .sums_stride = plan.columns,
                          .sums_are_reused = false,
                          .accumulate = g.accumulate || k > 0,
                          .output = needs_finish && k_end == g.k ? &g.c : nullptr};
          if (sums_are_output) {
            block.sums = static_cast<float*>(g.c.data);
            block.sums_m = block.sums_n = 0;
            block.sums_stride = g.c.stride;
          } else if (plan.sums_floats_per_member) {
            block.sums = sums + member * plan.sums_floats_per_member;
            block.sums_n = block.n_begin;
            block.sums_are_reused = true;
          }
          kernels.block(block);
        });
      }
    }
  }
}

// The rows of x are widened once by each member for itself: they are few.
void by_few_rows(const GemmKernels& kernels, StreamContext& context, const Gemm& g,
                 std::int64_t offset_bytes) {
  Scratch scratch(context, offset_bytes, rounded_up(g.m * g.k * 4, 64));
  float* x = scratch.floats(g.m * g.k);
  const std::int64_t row_bytes = g.a.stride * size_bytes(g.a.type);
  for (std::int64_t row = 0; row < g.m; ++row) {
    kernels.widen(x + row * g.k, static_cast<const std::byte*>(g.a.data) + row * row_bytes, g.a.type, g.k);
  }
  context.team.split(g.n, kernels.panel_columns, [&](std::int64_t begin, std::int64_t end) {
    kernels.few_rows({.x = x, .m = g.m, .k = g.k, .b = g.b, .n_begin = begin, .n_end = end, .output = g.c});
  });
}

}  // namespace

GemmGrid GemmGrid::of(std::int64_t m, std::int64_t n, std::int64_t row_grain, std::int64_t column_grain,
                      int members) {
  GemmGrid best;
  double least = 0;
  for (int rows = 1; rows <= members; ++rows) {
    if (members % rows) continue;
    const GemmGrid grid{rows, members / rows};
    const double tall = static_cast<double>(part(m, row_grain, rows - 1, rows).end -
                                            part(m, row_grain, rows - 1, rows).begin);
    const double high =
        std::max(tall, static_cast<double>(rounded_up(rounded_up(m, row_grain) / rows, row_grain)));
    const double wide = static_cast<double>(rounded_up((n + grid.columns - 1) / grid.columns, column_grain));
    // an element of A or B costs about as much to pack as 32 products
    const double cost = high * wide + 32 * (high + wide);
    if (rows == 1 || cost <= least) best = grid, least = cost;  // whole rows where it is all the same
  }
  return best;
}

GemmGrid::Part GemmGrid::part(std::int64_t count, std::int64_t grain, int index, int parts) {
  const std::int64_t pieces = (count + grain - 1) / grain;
  return {std::min(pieces * index / parts * grain, count),
          std::min(pieces * (index + 1) / parts * grain, count)};
}

GemmPath gemm_path(const Gemm& g) {
  const bool fp32 = g.a.type == DType::kF32;
  // rows of b that lie far apart: oneDNN's fp32 is as fast or faster
  const bool few_rows = g.m <= kFewRowsMost && !g.a.transposed && !g.accumulate && (!fp32 || g.b.transposed);
  if (few_rows) return GemmPath::kFewRows;
  // the weight gradient of a small matrix: oneDNN 2.6's sgemm on two members at once falls to 0.7 of its rate
  // (768 x 768 x 2048)
  if (fp32 && g.a.transposed && g.m * g.n <= kSmallOutput) return GemmPath::kPanels;
  if (fp32) return GemmPath::kOneDnn;
  // oneDNN 2.6's AMX products of an odd depth (65 x 17 x 63) configure tiles that do not fit: an illegal instruction
  return onednn_multiplies_bf16() && g.k % 2 == 0 ? GemmPath::kOneDnn : GemmPath::kPanels;
}

std::int64_t gemm_scratch_bytes(const GemmKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                                int threads, DType output) {
  std::int64_t panels = panel_plan(kernels, m, n, k, true).bytes(threads);
  if (output == DType::kBF16) panels = std::max(panels, panel_plan(kernels, m, n, k, false).bytes(threads));
  return std::max(panels, rounded_up(std::min(m, kFewRowsMost) * k * 4, 64)) + 64;
}

void gemm_by(GemmPath path, const GemmKernels& kernels, StreamContext& context, const Gemm& g,
             std::int64_t offset_bytes) {
  if (g.m == 0 || g.n == 0 || (g.k == 0 && g.accumulate)) return;
  switch (path) {
    case GemmPath::kFewRows:
      return by_few_rows(kernels, context, g, offset_bytes);
    case GemmPath::kOneDnn:
      return gemm_by_onednn(kernels, context.team, g);
    case GemmPath::kPanels:
      return by_panels(kernels, context, g, offset_bytes);
  }
}

void gemm(const GemmKernels& kernels, StreamContext& context, const Gemm& g, std::int64_t offset_bytes) {
  gemm_by(gemm_path(g), kernels, context, g, offset_bytes);
}

}  // namespace troupe::kernels::cpu
