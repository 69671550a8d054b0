#include "kernels/matmul.h"

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {
namespace {

// Where W[o, i] stands in a weight of O x I.
std::int64_t at(WeightLayout layout, std::int64_t o, std::int64_t i, std::int64_t out, std::int64_t in) {
  return layout == WeightLayout::kOutIn ? o * in + i : i * out + o;
}

}  // namespace

void run(const Matmul& op) {
  const auto rows = op.x.shape()[0], in = op.x.shape()[1], out = op.y.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < in; ++i)
        sum += load(op.x, n * in + i) * load(op.weight, at(op.layout, o, i, out, in));
      if (op.bias) sum += load(op.bias, o);
      if (op.residual) sum += load(op.residual, n * out + o);
      store(op.y, n * out + o, sum);
    }
  }
}

void run(const MatmulInputGradient& op) {
  const auto rows = op.dy.shape()[0], out = op.dy.shape()[1], in = op.dx.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::int64_t o = 0; o < out; ++o)
        sum += load(op.dy, n * out + o) * load(op.weight, at(op.layout, o, i, out, in));
      store(op.dx, n * in + i, sum);
    }
  }
}

void run(const MatmulWeightGradient& op) {
  const auto rows = op.dy.shape()[0], out = op.dy.shape()[1], in = op.x.shape()[1];
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::int64_t n = 0; n < rows; ++n) sum += load(op.dy, n * out + o) * load(op.x, n * in + i);
      accumulate(op.dweight, at(op.layout, o, i, out, in), sum);
    }
    if (!op.dbias) continue;
    double sum = 0;
    for (std::int64_t n = 0; n < rows; ++n) sum += load(op.dy, n * out + o);
    accumulate(op.dbias, o, sum);
  }
}

}  // namespace troupe::kernels::ref
