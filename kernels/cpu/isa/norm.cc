// A row is read from memory once: the second pass over it finds it in the first-level cache. Bound: bytes of
// x, y (dy, dx).
#include "kernels/cpu/isa/norm.h"

#include "kernels/cpu/isa/simd.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

// The sum of term(i, lanes) over a row, in four accumulators so that the chain of additions is short. Terms
// must be zero in the lanes beyond the row.
template <class Term>
TROUPE_SIMD float sum_over(std::int64_t n, const Term& term) {
  F32 a = {}, b = {}, c = {}, d = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += term(i, Full{});
    b += term(i + kLanes, Full{});
    c += term(i + 2 * kLanes, Full{});
    d += term(i + 3 * kLanes, Full{});
  }
  blocks(
      n - i, [&](std::int64_t j, auto lanes) __attribute__((always_inline)) { a += term(i + j, lanes); });
  return sum((a + b) + (c + d));
}

template <class T>
TROUPE_SIMD void rmsnorm_row(T* y, const T* x, const T* weight, float* inverse, std::int64_t n,
                             float epsilon) {
  const float squares = sum_over(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 v = load(x + i, lanes);
        return v * v;
      });
  const float scale = 1.0f / sqrt(squares / static_cast<float>(n) + epsilon);
  *inverse = scale;
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        store(y + i, rounded_to<T>(load(x + i, lanes) * scale) * load(weight + i, lanes), lanes);
      });
}

// dx = r dy w - x r^3 mean(dy w x), r = inverse rms.
template <class T>
TROUPE_SIMD void rmsnorm_input_gradient_row(T* dx, const T* dy, const T* x, const T* weight,
                                            const T* residual, float r, std::int64_t n) {
  const float dot = sum_over(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        return load(dy + i, lanes) * load(weight + i, lanes) * load(x + i, lanes);
      });
  const F32 along = broadcast(-(dot * r) * (r * r) / static_cast<float>(n));
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 beside = residual ? load(residual + i, lanes) : F32{};
        const F32 g = load(dy + i, lanes) * load(weight + i, lanes) * r;
        store(dx + i, fma(load(x + i, lanes), along, g) + beside, lanes);
      });
}

template <class T>
TROUPE_SIMD void layernorm_row(T* y, const T* x, const T* weight, const T* bias, float* mean_out,
                               float* inverse, std::int64_t n, float epsilon) {
  const float mean =
      sum_over(
          n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) { return load(x + i, lanes); }) /
      static_cast<float>(n);
  const float variance = sum_over(
                             n,
                             [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
                               const F32 v = keep(load(x + i, lanes) - mean, lanes);
                               return v * v;
                             }) /
                         static_cast<float>(n);
  const float scale = 1.0f / sqrt(variance + epsilon);
  *mean_out = mean;
  *inverse = scale;
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        store(y + i, fma((load(x + i, lanes) - mean) * scale, load(weight + i, lanes), load(bias + i, lanes)),
              lanes);
      });
}

// dx = r (dy w - mean(dy w) - xhat mean(dy w xhat)), xhat = (x - mean) r.
template <class T>
TROUPE_SIMD void layernorm_input_gradient_row(T* dx, const T* dy, const T* x, const T* weight,
                                              const T* residual, float mean, float r, std::int64_t n) {
  const float total = sum_over(
      n, [&](std::int64_t i, auto lanes)
             __attribute__((always_inline)) { return load(dy + i, lanes) * load(weight + i, lanes); });
  const float dot = sum_over(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        return load(dy + i, lanes) * load(weight + i, lanes) * (load(x + i, lanes) - mean);
      });
  const float flat = total / static_cast<float>(n);
  const float along = dot * r * r / static_cast<float>(n);
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        const F32 beside = residual ? load(residual + i, lanes) : F32{};
        const F32 g = load(dy + i, lanes) * load(weight + i, lanes) - flat;
        store(dx + i, fma(fma(load(x + i, lanes) - mean, broadcast(-along), g), r, beside), lanes);
      });
}

// Partial sums of this many channels stay in the first-level cache while a chunk of rows passes.
constexpr std::int64_t kColumnBlock = 1024;

// Adds the sums over rows [0, row_count) to dweight[begin, end). row(n) says where row n's data is.
template <bool kBias, class Row>
TROUPE_SIMD void add_columns(std::int64_t row_count, float* dweight, float* dbias, std::int64_t begin,
                             std::int64_t end, const Row& row) {
  alignas(64) float weight_sum[kColumnBlock];
  alignas(64) float bias_sum[kBias ? kColumnBlock : 1];
  for (std::int64_t first = 0; first < row_count; first += kNormRowChunk) {
    const std::int64_t last = first + kNormRowChunk < row_count ? first + kNormRowChunk : row_count;
    for (std::int64_t column = begin; column < end; column += kColumnBlock) {
      const std::int64_t width = end - column < kColumnBlock ? end - column : kColumnBlock;
      for (std::int64_t i = 0; i < width; ++i) weight_sum[i] = 0;
      if constexpr (kBias) {
        for (std::int64_t i = 0; i < width; ++i) bias_sum[i] = 0;
      }
      for (std::int64_t n = first; n < last; ++n) {
        const auto at = row(n);
        blocks(
            width, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
              const F32 g = load(at.dy + column + i, lanes);
              const F32 xhat = (load(at.x + column + i, lanes) - at.mean) * at.inverse;
              store(weight_sum + i, fma(g, xhat, load(weight_sum + i, lanes)), lanes);
              if constexpr (kBias) store(bias_sum + i, g + load(bias_sum + i, lanes), lanes);
            });
      }
      blocks(
          width, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
            store(dweight + column + i, load(dweight + column + i, lanes) + load(weight_sum + i, lanes),
                  lanes);
            if constexpr (kBias)
              store(dbias + column + i, load(dbias + column + i, lanes) + load(bias_sum + i, lanes), lanes);
          });
    }
  }
}

template <class T>
struct Row {
  const T* dy;
  const T* x;
  float mean, inverse;
};

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa, class T>
void rmsnorm_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t c = rows.channels;
  for (std::int64_t n = begin; n < end; ++n) {
    rmsnorm_row(rows.out + n * c, rows.x + n * c, rows.weight, rows.inverse + n, c, rows.epsilon);
  }
}

template <Isa, class T>
void rmsnorm_input_gradient_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t c = rows.channels;
  for (std::int64_t n = begin; n < end; ++n) {
    rmsnorm_input_gradient_row(rows.out + n * c, rows.dy + n * c, rows.x + n * c, rows.weight,
                               rows.residual ? rows.residual + n * c : nullptr, rows.inverse[n], c);
  }
}

template <Isa, class T>
void layernorm_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t c = rows.channels;
  for (std::int64_t n = begin; n < end; ++n) {
    layernorm_row(rows.out + n * c, rows.x + n * c, rows.weight, rows.bias, rows.mean + n, rows.inverse + n,
                  c, rows.epsilon);
  }
}

template <Isa, class T>
void layernorm_input_gradient_rows(const NormRows<T>& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t c = rows.channels;
  for (std::int64_t n = begin; n < end; ++n) {
    layernorm_input_gradient_row(rows.out + n * c, rows.dy + n * c, rows.x + n * c, rows.weight,
                                 rows.residual ? rows.residual + n * c : nullptr, rows.mean[n],
                                 rows.inverse[n], c);
  }
}

template <Isa, class T>
void norm_weight_gradient_columns(const NormRows<T>& rows, std::int64_t row_count, float* dweight,
                                  float* dbias, std::int64_t begin, std::int64_t end) {
  const auto row = [&](std::int64_t n) __attribute__((always_inline)) {
    return Row<T>{rows.dy + n * rows.channels, rows.x + n * rows.channels, rows.mean ? rows.mean[n] : 0.0f,
                  rows.inverse[n]};
  };
  if (dbias) {
    add_columns<true>(row_count, dweight, dbias, begin, end, row);
  } else {
    add_columns<false>(row_count, dweight, nullptr, begin, end, row);
  }
}

template <Isa, class T>
void qk_norm_rows(const QkNormRows<T>& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t d = rows.heads.channels, normed = rows.q_heads + rows.kv_heads,
                     width = (normed + rows.kv_heads) * d;
  for (std::int64_t n = begin; n < end; ++n) {
    const T* x = rows.heads.x + n * width;
    T* y = rows.heads.out + n * width;
    for (std::int64_t h = 0; h < normed; ++h) {
      rmsnorm_row(y + h * d, x + h * d, h < rows.q_heads ? rows.q_weight : rows.k_weight,
                  rows.heads.inverse + n * normed + h, d, rows.heads.epsilon);
    }
    __builtin_memcpy(y + normed * d, x + normed * d, static_cast<std::size_t>(rows.kv_heads * d) * sizeof(T));
  }
}

template <Isa, class T>
void qk_norm_input_gradient_rows(const QkNormRows<T>& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t d = rows.heads.channels, normed = rows.q_heads + rows.kv_heads,
                     width = (normed + rows.kv_heads) * d;
  for (std::int64_t n = begin; n < end; ++n) {
    const T* x = rows.heads.x + n * width;
    const T* dy = rows.heads.dy + n * width;
    T* dx = rows.heads.out + n * width;
    for (std::int64_t h = 0; h < normed; ++h) {
      rmsnorm_input_gradient_row<T>(dx + h * d, dy + h * d, x + h * d,
                                    h < rows.q_heads ? rows.q_weight : rows.k_weight, nullptr,
                                    rows.heads.inverse[n * normed + h], d);
    }
    if (dx != dy)
      __builtin_memcpy(dx + normed * d, dy + normed * d,
                       static_cast<std::size_t>(rows.kv_heads * d) * sizeof(T));
  }
}

template <Isa, class T>
void qk_norm_weight_gradient_rows(const QkNormRows<T>& rows, float* dq_weight, float* dk_weight,
                                  std::int64_t begin, std::int64_t end) {
  const std::int64_t d = rows.heads.channels, normed = rows.q_heads + rows.kv_heads,
                     width = (normed + rows.kv_heads) * d;
  // the heads of one kind, row after row, as one long list of rows
  const auto add = [&](float* dweight, std::int64_t first, std::int64_t heads)
      __attribute__((always_inline)) {
    add_columns<false>(
        (end - begin) * heads, dweight, nullptr, 0, d, [&](std::int64_t i) __attribute__((always_inline)) {
          const std::int64_t row = begin + i / heads, head = first + i % heads;
          const std::int64_t at = row * width + head * d;
          return Row<T>{rows.heads.dy + at, rows.heads.x + at, 0.0f, rows.heads.inverse[row * normed + head]};
        });
  };
  add(dq_weight, 0, rows.q_heads);
  add(dk_weight, rows.q_heads, rows.kv_heads);
}

#define TROUPE_INSTANTIATE(T)                                                                             \
  template void rmsnorm_rows<kIsa, T>(const NormRows<T>&, std::int64_t, std::int64_t);                    \
  template void rmsnorm_input_gradient_rows<kIsa, T>(const NormRows<T>&, std::int64_t, std::int64_t);     \
  template void layernorm_rows<kIsa, T>(const NormRows<T>&, std::int64_t, std::int64_t);                  \
  template void layernorm_input_gradient_rows<kIsa, T>(const NormRows<T>&, std::int64_t, std::int64_t);   \
  template void norm_weight_gradient_columns<kIsa, T>(const NormRows<T>&, std::int64_t, float*, float*,   \
                                                      std::int64_t, std::int64_t);                        \
  template void qk_norm_rows<kIsa, T>(const QkNormRows<T>&, std::int64_t, std::int64_t);                  \
  template void qk_norm_input_gradient_rows<kIsa, T>(const QkNormRows<T>&, std::int64_t, std::int64_t);   \
  template void qk_norm_weight_gradient_rows<kIsa, T>(const QkNormRows<T>&, float*, float*, std::int64_t, \
                                                      std::int64_t)
TROUPE_INSTANTIATE(float);
TROUPE_INSTANTIATE(bfloat16);

}  // namespace troupe::kernels::cpu
