#include "kernels/embedding.h"

#include <vector>

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {
namespace {

std::int64_t row_of(const ConstTensorView& indices, std::int64_t n, std::int64_t rows, const char* what) {
  const auto row = load_index(indices, n);
  TROUPE_CHECK(0 <= row && row < rows)
      << what << "[" << n << "] is " << row << ", must be in [0, " << rows << ")";
  return row;
}

// dweight[indices[n]] += dy[n]; summed in double, rounded once.
void scatter(const TensorView& dweight, const ConstTensorView& indices, const ConstTensorView& dy,
             const char* what) {
  const auto rows = dweight.shape()[0], channels = dweight.shape()[1];
  std::vector<double> sums(static_cast<std::size_t>(rows * channels));
  for (std::int64_t n = 0; n < dy.shape()[0]; ++n) {
    const auto row = row_of(indices, n, rows, what);
    for (std::int64_t c = 0; c < channels; ++c)
      sums[static_cast<std::size_t>(row * channels + c)] += load(dy, n * channels + c);
  }
  for (std::int64_t i = 0; i < rows * channels; ++i)
    accumulate(dweight, i, sums[static_cast<std::size_t>(i)]);
}

}  // namespace

void run(const Embedding& op) {
  const auto rows = op.y.shape()[0], channels = op.y.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    const auto token = row_of(op.tokens, n, op.weight.shape()[0], "Embedding: tokens");
    const auto position =
        op.positions ? row_of(op.positions, n, op.position_weight.shape()[0], "Embedding: positions") : 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = load(op.weight, token * channels + c);
      store(op.y, n * channels + c,
            value + (op.positions ? load(op.position_weight, position * channels + c) : 0));
    }
  }
}

void run(const EmbeddingWeightGradient& op) {
  scatter(op.dweight, op.tokens, op.dy, "EmbeddingWeightGradient: tokens");
  if (op.positions) scatter(op.dposition_weight, op.positions, op.dy, "EmbeddingWeightGradient: positions");
}

}  // namespace troupe::kernels::ref
