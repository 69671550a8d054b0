#include "kernels/norm.h"

#include <vector>

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {
namespace {

// `size` elements of a tensor starting at `at`: one row, or one head of a row.
struct Span {
  ConstTensorView tensor;
  std::int64_t at, size;
  double operator[](std::int64_t i) const { return load(tensor, at + i); }
};

double inverse_rms(const Span& x, double epsilon) {
  double squares = 0;
  for (std::int64_t i = 0; i < x.size; ++i) squares += x[i] * x[i];
  return 1 / std::sqrt(squares / static_cast<double>(x.size) + epsilon);
}

// y and x in one place of equally shaped tensors.
void rms_forward(const TensorView& y, const Span& x, const ConstTensorView& weight, double inverse) {
  for (std::int64_t i = 0; i < x.size; ++i) {
    store(y, x.at + i, round_to(x.tensor.type(), x[i] * inverse) * load(weight, i));
  }
}

// dx = inverse (dy w - xhat mean(dy w xhat)) [+ residual]
void rms_backward(const TensorView& dx, const Span& dy, const Span& x, const ConstTensorView& weight,
                  double inverse, const ConstTensorView& residual) {
  double dot = 0;
  for (std::int64_t i = 0; i < x.size; ++i) dot += dy[i] * load(weight, i) * x[i] * inverse;
  const double mean = dot / static_cast<double>(x.size);
  for (std::int64_t i = 0; i < x.size; ++i) {
    const double gradient = inverse * (dy[i] * load(weight, i) - x[i] * inverse * mean);
    store(dx, x.at + i, gradient + (residual ? load(residual, x.at + i) : 0));
  }
}

void accumulate_all(const TensorView& to, const std::vector<double>& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) accumulate(to, static_cast<std::int64_t>(i), sums[i]);
}

}  // namespace

void run(const RmsNorm& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    const Span x{op.x, n * channels, channels};
    const double inverse = inverse_rms(x, op.epsilon);
    rms_forward(op.y, x, op.weight, inverse);
    store(op.inverse_rms, n, inverse);
  }
}

void run(const RmsNormInputGradient& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    const auto at = n * channels;
    rms_backward(op.dx, {op.dy, at, channels}, {op.x, at, channels}, op.weight, load(op.inverse_rms, n),
                 op.residual);
  }
}

void run(const RmsNormWeightGradient& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  std::vector<double> sums(static_cast<std::size_t>(channels));
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto at = n * channels + c;
      sums[static_cast<std::size_t>(c)] += load(op.dy, at) * load(op.x, at) * load(op.inverse_rms, n);
    }
  }
  accumulate_all(op.dweight, sums);
}

void run(const LayerNorm& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    const Span x{op.x, n * channels, channels};
    double sum = 0, squares = 0;
    for (std::int64_t c = 0; c < channels; ++c) sum += x[c];
    const double mean = sum / static_cast<double>(channels);
    for (std::int64_t c = 0; c < channels; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(channels) + op.epsilon);
    for (std::int64_t c = 0; c < channels; ++c) {
      store(op.y, x.at + c, (x[c] - mean) * inverse * load(op.weight, c) + load(op.bias, c));
    }
    store(op.mean, n, mean);
    store(op.inverse_std, n, inverse);
  }
}

// dx = inverse_std (g - mean(g) - xhat mean(g xhat)) [+ residual], g = dy w. Ba et al. 2016, differentiated.
void run(const LayerNormInputGradient& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  const auto count = static_cast<double>(channels);
  for (std::int64_t n = 0; n < rows; ++n) {
    const double mean = load(op.mean, n), inverse = load(op.inverse_std, n);
    const auto g = [&](std::int64_t c) { return load(op.dy, n * channels + c) * load(op.weight, c); };
    const auto xhat = [&](std::int64_t c) { return (load(op.x, n * channels + c) - mean) * inverse; };
    double sum = 0, dot = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      sum += g(c);
      dot += g(c) * xhat(c);
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      const double beside = op.residual ? load(op.residual, n * channels + c) : 0;
      store(op.dx, n * channels + c, inverse * (g(c) - sum / count - xhat(c) * dot / count) + beside);
    }
  }
}

void run(const LayerNormWeightGradient& op) {
  const auto rows = op.x.shape()[0], channels = op.x.shape()[1];
  std::vector<double> weight_sums(static_cast<std::size_t>(channels)),
      bias_sums(static_cast<std::size_t>(channels));
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double dy = load(op.dy, n * channels + c);
      const double xhat = (load(op.x, n * channels + c) - load(op.mean, n)) * load(op.inverse_std, n);
      weight_sums[static_cast<std::size_t>(c)] += dy * xhat;
      bias_sums[static_cast<std::size_t>(c)] += dy;
    }
  }
  accumulate_all(op.dweight, weight_sums);
  accumulate_all(op.dbias, bias_sums);
}

void run(const QkNorm& op) {
  const auto rows = op.x.shape()[0], columns = op.x.shape()[1], size = op.q_weight.shape()[0];
  const std::int64_t normed = op.q_heads + op.kv_heads;
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t h = 0; h < normed; ++h) {
      const Span x{op.x, n * columns + h * size, size};
      const double inverse = inverse_rms(x, op.epsilon);
      rms_forward(op.y, x, h < op.q_heads ? op.q_weight : op.k_weight, inverse);
      store(op.inverse_rms, n * normed + h, inverse);
    }
    for (std::int64_t c = normed * size; c < columns; ++c)
      store(op.y, n * columns + c, load(op.x, n * columns + c));
  }
}

void run(const QkNormInputGradient& op) {
  const auto rows = op.x.shape()[0], columns = op.x.shape()[1], size = op.q_weight.shape()[0];
  const std::int64_t normed = op.q_heads + op.kv_heads;
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t h = 0; h < normed; ++h) {
      const auto at = n * columns + h * size;
      rms_backward(op.dx, {op.dy, at, size}, {op.x, at, size}, h < op.q_heads ? op.q_weight : op.k_weight,
                   load(op.inverse_rms, n * normed + h), {});
    }
    for (std::int64_t c = normed * size; c < columns; ++c)
      store(op.dx, n * columns + c, load(op.dy, n * columns + c));
  }
}

void run(const QkNormWeightGradient& op) {
  const auto rows = op.x.shape()[0], columns = op.x.shape()[1], size = op.dq_weight.shape()[0];
  const std::int64_t normed = op.q_heads + op.kv_heads;
  std::vector<double> q_sums(static_cast<std::size_t>(size)), k_sums(static_cast<std::size_t>(size));
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t h = 0; h < normed; ++h) {
      auto& sums = h < op.q_heads ? q_sums : k_sums;
      for (std::int64_t i = 0; i < size; ++i) {
        const auto at = n * columns + h * size + i;
        sums[static_cast<std::size_t>(i)] +=
            load(op.dy, at) * load(op.x, at) * load(op.inverse_rms, n * normed + h);
      }
    }
  }
  accumulate_all(op.dq_weight, q_sums);
  accumulate_all(op.dk_weight, k_sums);
}

}  // namespace troupe::kernels::ref
