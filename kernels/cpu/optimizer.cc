#include "kernels/cpu/isa/optimizer.h"

#include <cmath>

#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {

template <Isa kIsa>
void adamw(Stream& stream, const AdamW& op) {
  check_shapes(op);
  by_type(op.weight.type(), [&]<class T>() {
    const std::int64_t n = op.master.elements();
    const auto steps = static_cast<double>(op.step);
    AdamWElements<T> elements;
    elements.master = op.master.data<float>();
    elements.m = op.m.data<float>();
    elements.v = op.v.data<float>();
    elements.gradient = op.gradient.data<float>();
    elements.weight = op.weight.template data<T>();
    elements.gradient_scale = op.gradient_scale;
    elements.beta1 = op.beta1;
    elements.one_minus_beta1 = 1.0f - op.beta1;
    elements.beta2 = op.beta2;
    elements.one_minus_beta2 = 1.0f - op.beta2;
    elements.decay = static_cast<float>(1.0 - static_cast<double>(op.learning_rate) *
                                                  static_cast<double>(op.weight_decay));
    elements.rate = static_cast<float>(static_cast<double>(op.learning_rate) /
                                       (1.0 - std::pow(static_cast<double>(op.beta1), steps)));
    elements.inverse_correction2 =
        static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(op.beta2), steps)));
    elements.epsilon = op.epsilon;
    elements.clear_gradient = op.clear_gradient;
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        adamw_elements<kIsa, T>(elements, begin, end);
      });
    });
  });
}

template <Isa kIsa>
void squared_norm(Stream& stream, const SquaredNorm& op) {
  check_shapes(op);
  const std::int64_t n = op.x.elements(), count = (n + kNormChunk - 1) / kNormChunk;
  double* chunks = op.chunks.data<double>();
  const float* x = op.x.data<float>();
  stream.enqueue([=](device::StreamContext& context) {
    context.team.split(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        chunks[i] = sum_of_squares<kIsa>(x + i * kNormChunk, std::min(kNormChunk, n - i * kNormChunk));
      }
    });
  });
}

template <Isa kIsa>
void loss_sum(Stream& stream, const LossSum& op) {
  check_shapes(op);
  const std::int64_t n = op.loss.elements();
  double* total = op.total.data<double>();
  const float* loss = op.loss.data<float>();
  const std::int32_t* targets = op.targets.data<std::int32_t>();
  stream.enqueue([=](device::StreamContext&) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) count += targets[i] >= 0;
    total[0] = sum_in_double<kIsa>(loss, n);
    total[1] = static_cast<double>(count);
  });
}

TROUPE_CPU_OP(adamw, AdamW);
TROUPE_CPU_OP(squared_norm, SquaredNorm);
TROUPE_CPU_OP(loss_sum, LossSum);

}  // namespace troupe::kernels::cpu
