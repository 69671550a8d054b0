#include "kernels/cpu/matmul.h"

#include <algorithm>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

using device::DType;
using device::StreamContext;

// The view as op(matrix), transposed or not.
GemmOperand operand(const ConstTensorView& view, bool transposed) {
  return {view.raw(), view.type(), view.shape()[1], transposed};
}
GemmOutput output(const TensorView& view) {
  return {.data = view.raw(), .type = view.type(), .stride = view.shape()[1]};
}

}  // namespace

template <Isa isa>
void matmul(Stream& stream, const Matmul& op) {
  check_shapes(op);
  const std::int64_t n = op.x.shape()[0], in = op.x.shape()[1], out = op.y.shape()[1];
  Gemm g{.m = n,
         .n = out,
         .k = in,
         .a = operand(op.x, false),
         .b = operand(op.weight, op.layout == WeightLayout::kOutIn),
         .c = output(op.y)};
  if (op.bias) g.c.bias = op.bias.raw();
  if (op.residual) g.c.residual = op.residual.raw();
  stream.enqueue([g](StreamContext& context) { gemm(gemm_kernels<isa>(), context, g); });
}

template <Isa isa>
void matmul_input_gradient(Stream& stream, const MatmulInputGradient& op) {
  check_shapes(op);
  const std::int64_t n = op.dy.shape()[0], in = op.dx.shape()[1], out = op.dy.shape()[1];
  const Gemm g{.m = n,
               .n = in,
               .k = out,
               .a = operand(op.dy, false),
               .b = operand(op.weight, op.layout == WeightLayout::kInOut),
               .c = output(op.dx)};
  stream.enqueue([g](StreamContext& context) { gemm(gemm_kernels<isa>(), context, g); });
}

template <Isa isa>
void matmul_weight_gradient(Stream& stream, const MatmulWeightGradient& op) {
  check_shapes(op);
  const std::int64_t n = op.dy.shape()[0], in = op.x.shape()[1], out = op.dy.shape()[1];
  const bool out_in = op.layout == WeightLayout::kOutIn;
  const Gemm g{.m = out_in ? out : in,
               .n = out_in ? in : out,
               .k = n,
               .a = operand(out_in ? op.dy : op.x, true),
               .b = operand(out_in ? op.x : op.dy, false),
               .c = output(op.dweight),
               .accumulate = true};
  float* dbias = optional<float>(op.dbias);
  const GemmOperand dy = operand(op.dy, false);
  stream.enqueue([g, dbias, dy, n, out](StreamContext& context) {
    const GemmKernels& kernels = gemm_kernels<isa>();
    gemm(kernels, context, g);
    if (!dbias) return;
    context.team.split(out, 64, [&](std::int64_t begin, std::int64_t end) {
      kernels.add_column_sums(dbias, dy, n, begin, end);
    });
  });
}

template <Isa isa>
void logits(Stream& stream, const Logits& op) {
  check_shapes(op);
  const std::int64_t n = op.x.shape()[0], in = op.x.shape()[1], out = op.logits.shape()[1];
  const Gemm g{.m = n,
               .n = out,
               .k = in,
               .a = operand(op.x, false),
               .b = operand(op.weight, true),
               .c = output(op.logits)};
  stream.enqueue([g](StreamContext& context) { gemm(gemm_kernels<isa>(), context, g); });
}

template <Isa isa>
std::int64_t matmul_scratch_bytes(std::int64_t n, std::int64_t in, std::int64_t out, DType, int threads) {
  const GemmKernels& kernels = gemm_kernels<isa>();
  const auto bytes = [&](std::int64_t m, std::int64_t columns, std::int64_t depth) {
    return gemm_scratch_bytes(kernels, m, columns, depth, threads);
  };
  return std::max({bytes(n, out, in), bytes(n, in, out), bytes(out, in, n), bytes(in, out, n)});
}

TROUPE_CPU_OP(matmul, Matmul);
TROUPE_CPU_OP(matmul_input_gradient, MatmulInputGradient);
TROUPE_CPU_OP(matmul_weight_gradient, MatmulWeightGradient);
TROUPE_CPU_OP(logits, Logits);
template std::int64_t matmul_scratch_bytes<Isa::kBaseline>(std::int64_t, std::int64_t, std::int64_t, DType,
                                                           int);
template std::int64_t matmul_scratch_bytes<Isa::kAvx2>(std::int64_t, std::int64_t, std::int64_t, DType, int);
template std::int64_t matmul_scratch_bytes<Isa::kAvx512>(std::int64_t, std::int64_t, std::int64_t, DType,
                                                         int);

}  // namespace troupe::kernels::cpu
