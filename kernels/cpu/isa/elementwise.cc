// One pass each. Bound: bytes in and out.
#include "kernels/cpu/isa/elementwise.h"

#include "kernels/cpu/isa/simd_math.h"

namespace troupe::kernels::cpu {

using namespace TROUPE_ISA;

template <Isa, class T>
void fill_elements(T* y, float value, std::int64_t n) {
  const F32 v = broadcast(value);
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) { store(y + i, v, lanes); });
}

template <Isa, class To, class From>
void cast_elements(To* y, const From* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes)
             __attribute__((always_inline)) { store(y + i, load(x + i, lanes), lanes); });
}

template <Isa, class T>
void add_elements(T* y, const T* a, const T* b, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        store(y + i, load(a + i, lanes) + load(b + i, lanes), lanes);
      });
}

template <Isa, class T>
void accumulate_elements(float* sum, const T* x, std::int64_t n) {
  blocks(
      n, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
        store(sum + i, load(sum + i, lanes) + load(x + i, lanes), lanes);
      });
}

template <Isa, class T>
void rope_rows(T* qkv, const std::int32_t* positions, const float* inverse_frequency, std::int64_t heads,
               std::int64_t pairs, std::int64_t width, bool inverse, std::int64_t begin, std::int64_t end) {
  alignas(64) float cosine[kMaxRopePairs], sine[kMaxRopePairs];
  const float direction = inverse ? -1.0f : 1.0f;
  for (std::int64_t n = begin; n < end; ++n) {
    const float position = static_cast<float>(positions[n]);
    blocks(
        pairs, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
          const SinCos at = sincos(load(inverse_frequency + i, lanes) * position);
          store(cosine + i, at.cosine, lanes);
          store(sine + i, at.sine * direction, lanes);
        });
    T* row = qkv + n * width;
    for (std::int64_t h = 0; h < heads; ++h) {
      T* first = row + h * 2 * pairs;
      T* second = first + pairs;
      blocks(
          pairs, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) {
            const F32 a = load(first + i, lanes), b = load(second + i, lanes);
            const F32 c = load(cosine + i, lanes), s = load(sine + i, lanes);
            store(first + i, fma(a, c, -(b * s)), lanes);
            store(second + i, fma(b, c, a * s), lanes);
          });
    }
  }
}

#define TROUPE_INSTANTIATE(T)                                                                         \
  template void fill_elements<kIsa, T>(T*, float, std::int64_t);                                      \
  template void cast_elements<kIsa, T, float>(T*, const float*, std::int64_t);                        \
  template void cast_elements<kIsa, T, bfloat16>(T*, const bfloat16*, std::int64_t);                  \
  template void add_elements<kIsa, T>(T*, const T*, const T*, std::int64_t);                          \
  template void accumulate_elements<kIsa, T>(float*, const T*, std::int64_t);                         \
  template void rope_rows<kIsa, T>(T*, const std::int32_t*, const float*, std::int64_t, std::int64_t, \
                                   std::int64_t, bool, std::int64_t, std::int64_t)
TROUPE_INSTANTIATE(float);
TROUPE_INSTANTIATE(bfloat16);

}  // namespace troupe::kernels::cpu
