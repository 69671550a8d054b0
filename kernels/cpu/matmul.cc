#include "kernels/cpu/matmul.h"

#include <algorithm>

#include "kernels/cpu/gemm.h"

namespace troupe::kernels::cpu {
namespace {

using device::DType;
using device::StreamContext;

void check_type(const ConstTensorView& view, DType type, const char* what) {
  TROUPE_CHECK(view.type() == type) << what << " is " << name(view.type()) << ", must be " << name(type);
}
void check_matrix(const ConstTensorView& view, std::int64_t rows, std::int64_t columns, const char* what) {
  TROUPE_CHECK(view.shape().dims() == 2 && view.shape()[0] == rows && view.shape()[1] == columns)
      << what << " is " << view.shape().to_string() << ", must be [" << rows << ", " << columns << "]";
}
void check_weight(const ConstTensorView& weight, std::int64_t out, std::int64_t in, WeightLayout layout) {
  const bool out_in = layout == WeightLayout::kOutIn;
  check_matrix(weight, out_in ? out : in, out_in ? in : out, "weight");
}
void check_compute_type(DType type) {
  TROUPE_CHECK(type == DType::kF32 || type == DType::kBF16) << "a matrix product of " << name(type);
}

// The view as op(matrix), transposed or not.
GemmOperand operand(const ConstTensorView& view, bool transposed) {
  return {view.raw(), view.type(), view.shape()[1], transposed};
}
GemmOutput output(const TensorView& view) { return {.data = view.raw(), .type = view.type(), .stride = view.shape()[1]}; }

}  // namespace

template <Isa isa>
void matmul(Stream& stream, const Matmul& op) {
  check_compute_type(op.y.type());
  const std::int64_t n = op.x.shape()[0], in = op.x.shape()[1], out = op.y.shape()[1];
  check_matrix(op.y, n, out, "y");
  check_weight(op.weight, out, in, op.layout);
  check_type(op.x, op.y.type(), "x");
  check_type(op.weight, op.y.type(), "weight");
  Gemm g{.m = n, .n = out, .k = in, .a = operand(op.x, false), .b = operand(op.weight, op.layout == WeightLayout::kOutIn),
         .c = output(op.y)};
  if (op.bias) {
    TROUPE_CHECK(op.bias.elements() == out) << "bias is " << op.bias.shape().to_string() << ", must be [" << out << "]";
    check_type(op.bias, op.y.type(), "bias");
    g.c.bias = op.bias.raw();
  }
  if (op.residual) {
    check_matrix(op.residual, n, out, "residual");
    check_type(op.residual, op.y.type(), "residual");
    g.c.residual = op.residual.raw();
  }
  stream.enqueue([g](StreamContext& context) { gemm(gemm_kernels<isa>(), context, g); });
}

template <Isa isa>
void matmul_input_gradient(Stream& stream, const MatmulInputGradient& op) {
  check_compute_type(op.dx.type());
  const std::int64_t n = op.dy.shape()[0], in = op.dx.shape()[1], out = op.dy.shape()[1];
  check_matrix(op.dx, n, in, "dx");
  check_weight(op.weight, out, in, op.layout);
  check_type(op.dy, op.dx.type(), "dy");
  check_type(op.weight, op.dx.type(), "weight");
  const Gemm g{.m = n, .n = in, .k = out, .a = operand(op.dy, false),
               .b = operand(op.weight, op.layout == WeightLayout::kInOut), .c = output(op.dx)};
  stream.enqueue([g](StreamContext& context) { gemm(gemm_kernels<isa>(), context, g); });
}

template <Isa isa>
void matmul_weight_gradient(Stream& stream, const MatmulWeightGradient& op) {
  check_compute_type(op.dy.type());
  const std::int64_t n = op.dy.shape()[0], in = op.x.shape()[1], out = op.dy.shape()[1];
  check_matrix(op.x, n, in, "x");
  check_weight(op.dweight, out, in, op.layout);
  check_type(op.x, op.dy.type(), "x");
  check_type(op.dweight, DType::kF32, "dweight");
  const bool out_in = op.layout == WeightLayout::kOutIn;
  const Gemm g{.m = out_in ? out : in, .n = out_in ? in : out, .k = n, .a = operand(out_in ? op.dy : op.x, true),
               .b = operand(out_in ? op.x : op.dy, false), .c = output(op.dweight), .accumulate = true};
  float* dbias = nullptr;
  if (op.dbias) {
    TROUPE_CHECK(op.dbias.elements() == out) << "dbias is " << op.dbias.shape().to_string() << ", must be [" << out << "]";
    dbias = op.dbias.template data<float>();
  }
  const GemmOperand dy = operand(op.dy, false);
  stream.enqueue([g, dbias, dy, n, out](StreamContext& context) {
    const GemmKernels& kernels = gemm_kernels<isa>();
    gemm(kernels, context, g);
    if (!dbias) return;
    context.team.split(out, 64, [&](std::int64_t begin, std::int64_t end) { kernels.add_column_sums(dbias, dy, n, begin, end); });
  });
}

template <Isa isa>
void logits(Stream& stream, const Logits& op) {
  check_compute_type(op.x.type());
  const std::int64_t n = op.x.shape()[0], in = op.x.shape()[1], out = op.logits.shape()[1];
  check_matrix(op.logits, n, out, "logits");
  check_matrix(op.weight, out, in, "weight");
  check_type(op.logits, DType::kF32, "logits");
  check_type(op.weight, op.x.type(), "weight");
  const Gemm g{.m = n, .n = out, .k = in, .a = operand(op.x, false), .b = operand(op.weight, true), .c = output(op.logits)};
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
template std::int64_t matmul_scratch_bytes<Isa::kBaseline>(std::int64_t, std::int64_t, std::int64_t, DType, int);
template std::int64_t matmul_scratch_bytes<Isa::kAvx2>(std::int64_t, std::int64_t, std::int64_t, DType, int);
template std::int64_t matmul_scratch_bytes<Isa::kAvx512>(std::int64_t, std::int64_t, std::int64_t, DType, int);

}  // namespace troupe::kernels::cpu
