#include "kernels/cpu/isa/norm.h"

#include <cstring>

#include "kernels/cpu/isa/elementwise.h"
#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

// A head has too few channels to share out: rows are cut into this many slices, whatever the team, and the
// slices' sums, on the stack, are added in order.
constexpr std::int64_t kQkSlices = 16;
constexpr std::int64_t kMaxQkChannels = 512;  // 64 KiB of stack

std::int64_t rows_of(const ConstTensorView& x) { return x.elements() / x.shape()[-1]; }

// Runs loop(rows, begin, end) over shares of [0, n).
template <class Rows, class Loop>
void enqueue_rows(Stream& stream, const Rows& rows, std::int64_t n, std::int64_t row_elements, Loop loop) {
  stream.enqueue([rows, n, row_elements, loop](device::StreamContext& context) {
    context.team.split(n, rows_per_piece(row_elements),
                       [&](std::int64_t begin, std::int64_t end) { loop(rows, begin, end); });
  });
}

template <class Rows, class Loop>
void enqueue_columns(Stream& stream, const Rows& rows, std::int64_t n, std::int64_t channels, float* dweight,
                     float* other, Loop loop) {
  stream.enqueue([=](device::StreamContext& context) {
    context.team.split(channels, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
      loop(rows, n, dweight, other, begin, end);
    });
  });
}

template <class T, class Op>
QkNormRows<T> heads_of(const Op& op) {
  QkNormRows<T> rows;
  const std::int64_t all = op.q_heads + 2 * op.kv_heads;
  rows.heads.channels = op.x.shape()[-1] / all;
  rows.heads.x = op.x.template data<T>();
  rows.heads.inverse = const_cast<float*>(op.inverse_rms.template data<float>());
  rows.q_heads = op.q_heads;
  rows.kv_heads = op.kv_heads;
  return rows;
}

}  // namespace

template <Isa kIsa>
void rmsnorm(Stream& stream, const RmsNorm& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = op.y.template data<T>();
    rows.x = op.x.template data<T>();
    rows.weight = op.weight.template data<T>();
    rows.inverse = op.inverse_rms.data<float>();
    rows.channels = c;
    rows.epsilon = op.epsilon;
    enqueue_rows(stream, rows, n, c, rmsnorm_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void rmsnorm_input_gradient(Stream& stream, const RmsNormInputGradient& op) {
  check_shapes(op);
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = op.dx.template data<T>();
    rows.dy = op.dy.template data<T>();
    rows.x = op.x.template data<T>();
    rows.weight = op.weight.template data<T>();
    rows.inverse = const_cast<float*>(op.inverse_rms.data<float>());
    rows.residual = optional<T>(op.residual);
    rows.channels = c;
    enqueue_rows(stream, rows, n, c, rmsnorm_input_gradient_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void rmsnorm_weight_gradient(Stream& stream, const RmsNormWeightGradient& op) {
  check_shapes(op);
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.dy = op.dy.template data<T>();
    rows.x = op.x.template data<T>();
    rows.inverse = const_cast<float*>(op.inverse_rms.data<float>());
    rows.channels = c;
    enqueue_columns(stream, rows, n, c, op.dweight.data<float>(), nullptr,
                    norm_weight_gradient_columns<kIsa, T>);
  });
}

template <Isa kIsa>
void layernorm(Stream& stream, const LayerNorm& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = op.y.template data<T>();
    rows.x = op.x.template data<T>();
    rows.weight = op.weight.template data<T>();
    rows.bias = op.bias.template data<T>();
    rows.mean = op.mean.data<float>();
    rows.inverse = op.inverse_std.data<float>();
    rows.channels = c;
    rows.epsilon = op.epsilon;
    enqueue_rows(stream, rows, n, c, layernorm_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void layernorm_input_gradient(Stream& stream, const LayerNormInputGradient& op) {
  check_shapes(op);
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = op.dx.template data<T>();
    rows.dy = op.dy.template data<T>();
    rows.x = op.x.template data<T>();
    rows.weight = op.weight.template data<T>();
    rows.mean = const_cast<float*>(op.mean.data<float>());
    rows.inverse = const_cast<float*>(op.inverse_std.data<float>());
    rows.residual = optional<T>(op.residual);
    rows.channels = c;
    enqueue_rows(stream, rows, n, c, layernorm_input_gradient_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void layernorm_weight_gradient(Stream& stream, const LayerNormWeightGradient& op) {
  check_shapes(op);
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.dy = op.dy.template data<T>();
    rows.x = op.x.template data<T>();
    rows.mean = const_cast<float*>(op.mean.data<float>());
    rows.inverse = const_cast<float*>(op.inverse_std.data<float>());
    rows.channels = c;
    enqueue_columns(stream, rows, n, c, op.dweight.data<float>(), op.dbias.data<float>(),
                    norm_weight_gradient_columns<kIsa, T>);
  });
}

template <Isa kIsa>
void qk_norm(Stream& stream, const QkNorm& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t width = op.x.shape()[-1], n = rows_of(op.x);
    QkNormRows<T> rows = heads_of<T>(op);
    rows.heads.out = op.y.template data<T>();
    rows.q_weight = op.q_weight.template data<T>();
    rows.k_weight = op.k_weight.template data<T>();
    rows.heads.epsilon = op.epsilon;
    enqueue_rows(stream, rows, n, width, qk_norm_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void qk_norm_input_gradient(Stream& stream, const QkNormInputGradient& op) {
  check_shapes(op);
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t width = op.x.shape()[-1], n = rows_of(op.x);
    QkNormRows<T> rows = heads_of<T>(op);
    rows.heads.out = op.dx.template data<T>();
    rows.heads.dy = op.dy.template data<T>();
    rows.q_weight = op.q_weight.template data<T>();
    rows.k_weight = op.k_weight.template data<T>();
    enqueue_rows(stream, rows, n, width, qk_norm_input_gradient_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void qk_norm_weight_gradient(Stream& stream, const QkNormWeightGradient& op) {
  check_shapes(op);
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t n = rows_of(op.x);
    QkNormRows<T> rows = heads_of<T>(op);
    const std::int64_t d = rows.heads.channels;
    TROUPE_CHECK(d <= kMaxQkChannels) << "qk_norm heads of " << d << ", at most " << kMaxQkChannels;
    rows.heads.dy = op.dy.template data<T>();
    float* dq_weight = op.dq_weight.template data<float>();
    float* dk_weight = op.dk_weight.template data<float>();
    stream.enqueue([=](device::StreamContext& context) {
      alignas(64) float sums[kQkSlices][2][kMaxQkChannels];
      context.team.split(kQkSlices, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t slice = begin; slice < end; ++slice) {
          std::memset(sums[slice], 0, sizeof sums[slice]);
          qk_norm_weight_gradient_rows<kIsa, T>(rows, sums[slice][0], sums[slice][1], n * slice / kQkSlices,
                                                n * (slice + 1) / kQkSlices);
        }
      });
      for (const auto& slice : sums) {
        accumulate_elements<kIsa, float>(dq_weight, slice[0], d);
        accumulate_elements<kIsa, float>(dk_weight, slice[1], d);
      }
    });
  });
}

TROUPE_CPU_OP(rmsnorm, RmsNorm);
TROUPE_CPU_OP(rmsnorm_input_gradient, RmsNormInputGradient);
TROUPE_CPU_OP(rmsnorm_weight_gradient, RmsNormWeightGradient);
TROUPE_CPU_OP(layernorm, LayerNorm);
TROUPE_CPU_OP(layernorm_input_gradient, LayerNormInputGradient);
TROUPE_CPU_OP(layernorm_weight_gradient, LayerNormWeightGradient);
TROUPE_CPU_OP(qk_norm, QkNorm);
TROUPE_CPU_OP(qk_norm_input_gradient, QkNormInputGradient);
TROUPE_CPU_OP(qk_norm_weight_gradient, QkNormWeightGradient);

}  // namespace troupe::kernels::cpu
