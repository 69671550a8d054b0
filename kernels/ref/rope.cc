#include "kernels/rope.h"

#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {

void run(const Rope& op) {
  const auto rows = op.qkv.shape()[0], columns = op.qkv.shape()[1], half = op.inverse_frequency.shape()[0];
  for (std::int64_t n = 0; n < rows; ++n) {
    const auto position = static_cast<double>(load_index(op.positions, n));
    for (std::int64_t i = 0; i < half; ++i) {
      // The angle is rounded like its frequency, as Hugging Face's fp32 product is: at position 100000 that
      // rounding is far larger than any tolerance of the rotation itself.
      const double angle = round_to(op.inverse_frequency.type(), position * load(op.inverse_frequency, i));
      const double cosine = std::cos(angle), sine = op.inverse ? -std::sin(angle) : std::sin(angle);
      for (std::int64_t h = 0; h < op.q_heads + op.kv_heads; ++h) {
        const auto first = n * columns + h * 2 * half + i, second = first + half;
        const double a = load(op.qkv, first), b = load(op.qkv, second);
        store(op.qkv, first, a * cosine - b * sine);
        store(op.qkv, second, b * cosine + a * sine);
      }
    }
  }
}

}  // namespace troupe::kernels::ref
