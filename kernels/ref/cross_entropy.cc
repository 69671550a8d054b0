#include "kernels/cross_entropy.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {
namespace {

double logit(const ConstTensorView& x, const ConstTensorView& weight, std::int64_t n, std::int64_t v) {
  const auto channels = x.shape()[1];
  double sum = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    sum += load(x, n * channels + c) * load(weight, v * channels + c);
  return sum;
}

}  // namespace

void run(const CrossEntropyHead& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  std::vector<double> row(index(op.vocabulary)), dx(index(channels));
  std::vector<double> dweight(index(op.dweight ? op.dweight.elements() : 0));
  for (std::int64_t n = 0; n < rows; ++n) {
    std::fill(dx.begin(), dx.end(), 0.0);
    const auto target = load_index(op.targets, n);
    TROUPE_CHECK(-1 <= target && target < op.vocabulary)
        << "CrossEntropyHead: targets[" << n << "] is " << target << ", must be -1 or in [0, "
        << op.vocabulary << ")";
    double loss = 0;
    if (target >= 0) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t v = 0; v < op.vocabulary; ++v)
        largest = std::max(largest, row[index(v)] = logit(op.x, op.weight, n, v));
      for (const double value : row) sum += std::exp(value - largest);
      loss = largest + std::log(sum) - row[index(target)];
      for (std::int64_t v = 0; op.dx && v < op.vocabulary; ++v) {
        const double dlogit = std::exp(row[index(v)] - largest) / sum - (v == target ? 1 : 0);
        for (std::int64_t c = 0; c < channels; ++c) {
          dx[index(c)] += dlogit * load(op.weight, v * channels + c);
          dweight[index(v * channels + c)] += dlogit * load(op.x, n * channels + c);
        }
      }
    }
    store(op.loss, n, loss);
    for (std::int64_t c = 0; op.dx && c < channels; ++c) store(op.dx, n * channels + c, dx[index(c)]);
  }
  for (std::size_t i = 0; i < dweight.size(); ++i)
    accumulate(op.dweight, static_cast<std::int64_t>(i), dweight[i]);
}

void run(const Logits& op) {
  const auto rows = op.logits.shape()[0], padded = op.logits.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t v = 0; v < padded; ++v) store(op.logits, n * padded + v, logit(op.x, op.weight, n, v));
  }
}

}  // namespace troupe::kernels::ref
