#include "kernels/activation.h"

#include <numbers>

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

constexpr double kCubic = 0.044715;
const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);

double gelu(GeluKind kind, double x) {
  if (kind == GeluKind::kExact) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
}

double gelu_slope(GeluKind kind, double x) {
  if (kind == GeluKind::kExact) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
  }
  const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}

}  // namespace

void run(const Swiglu& op) {
  const auto rows = op.y.shape()[0], inner = op.y.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const double gate = load(op.gate_up, n * 2 * inner + i),
                   up = load(op.gate_up, n * 2 * inner + inner + i);
      store(op.y, n * inner + i, gate * sigmoid(gate) * up);
    }
  }
}

void run(const SwigluInputGradient& op) {
  const auto rows = op.dy.shape()[0], inner = op.dy.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto gate_at = n * 2 * inner + i, up_at = gate_at + inner;
      const double gate = load(op.gate_up, gate_at), up = load(op.gate_up, up_at),
                   dy = load(op.dy, n * inner + i);
      const double s = sigmoid(gate);
      store(op.dgate_up, gate_at, dy * up * s * (1 + gate * (1 - s)));
      store(op.dgate_up, up_at, dy * gate * s);
    }
  }
}

void run(const Gelu& op) {
  for (std::int64_t i = 0; i < op.y.elements(); ++i) store(op.y, i, gelu(op.kind, load(op.x, i)));
}

void run(const GeluInputGradient& op) {
  for (std::int64_t i = 0; i < op.dx.elements(); ++i)
    store(op.dx, i, load(op.dy, i) * gelu_slope(op.kind, load(op.x, i)));
}

void run(const Dropout& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  const double threshold = static_cast<double>(op.probability) * 0x1p32,
               scale = 1 / (1 - static_cast<double>(op.probability));
  for (std::int64_t n = 0; n < rows; ++n) {
    RandomKey key = op.key;
    key.sample = sample_id(op.sample_ids.data<std::int32_t>(), n / op.rows_per_sample);
    const RandomStream words(key);
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto word = words.at(static_cast<std::uint64_t>(n % op.rows_per_sample * channels + c));
      const double kept = word >= threshold ? load(op.x, n * channels + c) * scale : 0;
      store(op.y, n * channels + c, kept + (op.residual ? load(op.residual, n * channels + c) : 0));
    }
  }
}

}  // namespace troupe::kernels::ref
