#include "kernels/cpu/isa/activation.h"

#include <cmath>

#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {

template <Isa kIsa>
void swiglu(Stream& stream, const Swiglu& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t inner = op.y.shape()[-1], n = op.y.elements() / inner;
    T* y = op.y.template data<T>();
    const T* gate_up = op.gate_up.template data<T>();
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, rows_per_piece(inner), [&](std::int64_t begin, std::int64_t end) {
        swiglu_rows<kIsa, T>(y, gate_up, inner, begin, end);
      });
    });
  });
}

template <Isa kIsa>
void swiglu_input_gradient(Stream& stream, const SwigluInputGradient& op) {
  check_shapes(op);
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t inner = op.dy.shape()[-1], n = op.dy.elements() / inner;
    T* dgate_up = op.dgate_up.template data<T>();
    const T* dy = op.dy.template data<T>();
    const T* gate_up = op.gate_up.template data<T>();
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, rows_per_piece(inner), [&](std::int64_t begin, std::int64_t end) {
        swiglu_input_gradient_rows<kIsa, T>(dgate_up, dy, gate_up, inner, begin, end);
      });
    });
  });
}

template <Isa kIsa>
void gelu(Stream& stream, const Gelu& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t n = op.y.elements();
    T* y = op.y.template data<T>();
    const T* x = op.x.template data<T>();
    const auto loop = op.kind == GeluKind::kTanh ? gelu_tanh<kIsa, T> : gelu_exact<kIsa, T>;
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        loop(y + begin, x + begin, end - begin);
      });
    });
  });
}

template <Isa kIsa>
void gelu_input_gradient(Stream& stream, const GeluInputGradient& op) {
  check_shapes(op);
  by_type(op.dx.type(), [&]<class T>() {
    const std::int64_t n = op.dx.elements();
    T* dx = op.dx.template data<T>();
    const T* dy = op.dy.template data<T>();
    const T* x = op.x.template data<T>();
    const auto loop =
        op.kind == GeluKind::kTanh ? gelu_tanh_input_gradient<kIsa, T> : gelu_exact_input_gradient<kIsa, T>;
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        loop(dx + begin, dy + begin, x + begin, end - begin);
      });
    });
  });
}

template <Isa kIsa>
void dropout(Stream& stream, const Dropout& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.y.shape()[-1], n = op.y.elements() / c, rows_per_sample = op.rows_per_sample;
    T* y = op.y.template data<T>();
    const T* x = op.x.template data<T>();
    const T* residual = optional<T>(op.residual);
    const std::int32_t* sample_ids = op.sample_ids.data<std::int32_t>();
    const RandomKey key = op.key;
    const float probability = op.probability;
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, rows_per_piece(c), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end;) {
          const std::int64_t sample = row / rows_per_sample, first = row % rows_per_sample;
          const std::int64_t last = std::min(end, (sample + 1) * rows_per_sample);
          dropout_elements<kIsa, T>(y + row * c, x + row * c, residual ? residual + row * c : nullptr,
                                    (last - row) * c, dropout_mask(key, sample_ids, sample, probability),
                                    static_cast<std::uint64_t>(first * c));
          row = last;
        }
      });
    });
  });
}

TROUPE_CPU_OP(swiglu, Swiglu);
TROUPE_CPU_OP(swiglu_input_gradient, SwigluInputGradient);
TROUPE_CPU_OP(gelu, Gelu);
TROUPE_CPU_OP(gelu_input_gradient, GeluInputGradient);
TROUPE_CPU_OP(dropout, Dropout);

}  // namespace troupe::kernels::cpu
