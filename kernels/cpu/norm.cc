#include "kernels/cpu/isa/norm.h"

#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

// Threads share out channels for the weight gradients: whole cache lines of fp32.
constexpr std::int64_t kColumnGrain = 16;

std::int64_t rows_of(const ConstTensorView& x) { return x.elements() / x.shape()[-1]; }

// Runs loop(rows, begin, end) over shares of [0, n).
template <class Rows, class Loop>
void enqueue_rows(Stream& stream, const Rows& rows, std::int64_t n, std::int64_t row_elements, Loop loop) {
  stream.enqueue([rows, n, row_elements, loop](device::StreamContext& context) {
    context.team.split(n, rows_per_piece(row_elements), [&](std::int64_t begin, std::int64_t end) { loop(rows, begin, end); });
  });
}

template <class Rows, class Loop>
void enqueue_columns(Stream& stream, const Rows& rows, std::int64_t n, std::int64_t channels, float* dweight, float* other, Loop loop) {
  stream.enqueue([=](device::StreamContext& context) {
    context.team.split(channels, kColumnGrain, [&](std::int64_t begin, std::int64_t end) { loop(rows, n, dweight, other, begin, end); });
  });
}

template <class T, class Op>
QkNormRows<T> heads_of(const Op& op, std::int64_t n, std::int64_t width) {
  QkNormRows<T> rows;
  const std::int64_t all = op.q_heads + 2 * op.kv_heads;
  TROUPE_CHECK(op.q_heads > 0 && op.kv_heads > 0 && width % all == 0) << "a row of " << width << " for " << op.q_heads << " + 2 x "
                                                                      << op.kv_heads << " heads";
  rows.heads.channels = width / all;
  rows.heads.x = needed<T>(op.x, n * width, "qk_norm x");
  rows.heads.inverse = const_cast<float*>(needed<float>(op.inverse_rms, n * (op.q_heads + op.kv_heads), "qk_norm inverse_rms"));
  rows.q_heads = op.q_heads;
  rows.kv_heads = op.kv_heads;
  return rows;
}

}  // namespace

template <Isa kIsa>
void rmsnorm(Stream& stream, const RmsNorm& op) {
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = needed<T>(op.y, n * c, "rmsnorm y");
    rows.x = needed<T>(op.x, n * c, "rmsnorm x");
    rows.weight = needed<T>(op.weight, c, "rmsnorm weight");
    rows.inverse = needed<float>(op.inverse_rms, n, "rmsnorm inverse_rms");
    rows.channels = c;
    rows.epsilon = op.epsilon;
    enqueue_rows(stream, rows, n, c, rmsnorm_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void rmsnorm_input_gradient(Stream& stream, const RmsNormInputGradient& op) {
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = needed<T>(op.dx, n * c, "rmsnorm dx");
    rows.dy = needed<T>(op.dy, n * c, "rmsnorm dy");
    rows.x = needed<T>(op.x, n * c, "rmsnorm x");
    rows.weight = needed<T>(op.weight, c, "rmsnorm weight");
    rows.inverse = const_cast<float*>(needed<float>(op.inverse_rms, n, "rmsnorm inverse_rms"));
    rows.residual = op.residual ? checked<T>(op.residual, n * c, "rmsnorm residual") : nullptr;
    rows.channels = c;
    enqueue_rows(stream, rows, n, c, rmsnorm_input_gradient_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void rmsnorm_weight_gradient(Stream& stream, const RmsNormWeightGradient& op) {
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.dy = needed<T>(op.dy, n * c, "rmsnorm dy");
    rows.x = needed<T>(op.x, n * c, "rmsnorm x");
    rows.inverse = const_cast<float*>(needed<float>(op.inverse_rms, n, "rmsnorm inverse_rms"));
    rows.channels = c;
    enqueue_columns(stream, rows, n, c, needed<float>(op.dweight, c, "rmsnorm dweight"), nullptr, norm_weight_gradient_columns<kIsa, T>);
  });
}

template <Isa kIsa>
void layernorm(Stream& stream, const LayerNorm& op) {
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = needed<T>(op.y, n * c, "layernorm y");
    rows.x = needed<T>(op.x, n * c, "layernorm x");
    rows.weight = needed<T>(op.weight, c, "layernorm weight");
    rows.bias = needed<T>(op.bias, c, "layernorm bias");
    rows.mean = needed<float>(op.mean, n, "layernorm mean");
    rows.inverse = needed<float>(op.inverse_std, n, "layernorm inverse_std");
    rows.channels = c;
    rows.epsilon = op.epsilon;
    enqueue_rows(stream, rows, n, c, layernorm_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void layernorm_input_gradient(Stream& stream, const LayerNormInputGradient& op) {
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.out = needed<T>(op.dx, n * c, "layernorm dx");
    rows.dy = needed<T>(op.dy, n * c, "layernorm dy");
    rows.x = needed<T>(op.x, n * c, "layernorm x");
    rows.weight = needed<T>(op.weight, c, "layernorm weight");
    rows.mean = const_cast<float*>(needed<float>(op.mean, n, "layernorm mean"));
    rows.inverse = const_cast<float*>(needed<float>(op.inverse_std, n, "layernorm inverse_std"));
    rows.residual = op.residual ? checked<T>(op.residual, n * c, "layernorm residual") : nullptr;
    rows.channels = c;
    enqueue_rows(stream, rows, n, c, layernorm_input_gradient_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void layernorm_weight_gradient(Stream& stream, const LayerNormWeightGradient& op) {
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t c = op.x.shape()[-1], n = rows_of(op.x);
    NormRows<T> rows;
    rows.dy = needed<T>(op.dy, n * c, "layernorm dy");
    rows.x = needed<T>(op.x, n * c, "layernorm x");
    rows.mean = const_cast<float*>(needed<float>(op.mean, n, "layernorm mean"));
    rows.inverse = const_cast<float*>(needed<float>(op.inverse_std, n, "layernorm inverse_std"));
    rows.channels = c;
    enqueue_columns(stream, rows, n, c, needed<float>(op.dweight, c, "layernorm dweight"), needed<float>(op.dbias, c, "layernorm dbias"),
                    norm_weight_gradient_columns<kIsa, T>);
  });
}

template <Isa kIsa>
void qk_norm(Stream& stream, const QkNorm& op) {
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t width = op.x.shape()[-1], n = rows_of(op.x);
    QkNormRows<T> rows = heads_of<T>(op, n, width);
    rows.heads.out = needed<T>(op.y, n * width, "qk_norm y");
    rows.q_weight = needed<T>(op.q_weight, rows.heads.channels, "qk_norm q_weight");
    rows.k_weight = needed<T>(op.k_weight, rows.heads.channels, "qk_norm k_weight");
    rows.heads.epsilon = op.epsilon;
    enqueue_rows(stream, rows, n, width, qk_norm_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void qk_norm_input_gradient(Stream& stream, const QkNormInputGradient& op) {
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t width = op.x.shape()[-1], n = rows_of(op.x);
    QkNormRows<T> rows = heads_of<T>(op, n, width);
    rows.heads.out = needed<T>(op.dx, n * width, "qk_norm dx");
    rows.heads.dy = needed<T>(op.dy, n * width, "qk_norm dy");
    rows.q_weight = needed<T>(op.q_weight, rows.heads.channels, "qk_norm q_weight");
    rows.k_weight = needed<T>(op.k_weight, rows.heads.channels, "qk_norm k_weight");
    enqueue_rows(stream, rows, n, width, qk_norm_input_gradient_rows<kIsa, T>);
  });
}

template <Isa kIsa>
void qk_norm_weight_gradient(Stream& stream, const QkNormWeightGradient& op) {
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t width = op.x.shape()[-1], n = rows_of(op.x);
    QkNormRows<T> rows = heads_of<T>(op, n, width);
    const std::int64_t d = rows.heads.channels;
    rows.heads.dy = needed<T>(op.dy, n * width, "qk_norm dy");
    enqueue_columns(stream, rows, n, d, needed<float>(op.dq_weight, d, "qk_norm dq_weight"),
                    needed<float>(op.dk_weight, d, "qk_norm dk_weight"), qk_norm_weight_gradient_columns<kIsa, T>);
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
