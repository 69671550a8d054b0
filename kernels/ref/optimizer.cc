#include "kernels/optimizer.h"

#include <algorithm>

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {

void run(const AdamW& op) {
  const double b1 = op.beta1, b2 = op.beta2, rate = op.learning_rate;
  const double correction1 = 1 - std::pow(b1, static_cast<double>(op.step));
  const double correction2 = 1 - std::pow(b2, static_cast<double>(op.step));
  for (std::int64_t i = 0; i < op.master.elements(); ++i) {
    const double g = load(op.gradient, i) * op.gradient_scale;
    const double m = b1 * load(op.m, i) + (1 - b1) * g;
    const double v = b2 * load(op.v, i) + (1 - b2) * g * g;
    double master = load(op.master, i);
    master -= rate * op.weight_decay * master;
    master -= rate * (m / correction1) / (std::sqrt(v / correction2) + op.epsilon);
    store(op.m, i, m);
    store(op.v, i, v);
    store(op.master, i, master);
    store(op.weight, i, load(op.master, i));  // the rounded master: what a resume from it would compute with
    if (op.clear_gradient) store(op.gradient, i, 0);
  }
}

void run(const SquaredNorm& op) {
  const auto count = op.x.elements();
  for (std::int64_t chunk = 0; chunk * kNormChunk < count; ++chunk) {
    double sum = 0;
    for (auto i = chunk * kNormChunk; i < std::min(count, (chunk + 1) * kNormChunk); ++i)
      sum += load(op.x, i) * load(op.x, i);
    store(op.chunks, chunk, sum);
  }
}

void run(const LossSum& op) {
  double sum = 0, count = 0;
  for (std::int64_t n = 0; n < op.loss.elements(); ++n) {
    sum += load(op.loss, n);
    count += load_index(op.targets, n) >= 0 ? 1 : 0;
  }
  store(op.total, 0, sum);
  store(op.total, 1, count);
}

}  // namespace troupe::kernels::ref
