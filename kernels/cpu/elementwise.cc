#include "kernels/cpu/isa/elementwise.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

// Ids come from the corpus: one outside the table would read or write another tensor.
void check_ids(const std::int32_t* ids, std::int64_t begin, std::int64_t end, std::int64_t limit,
               const char* what) {
  for (std::int64_t i = begin; i < end; ++i) {
    TROUPE_CHECK(ids[i] >= 0 && ids[i] < limit)
        << what << " " << ids[i] << " at " << i << ", must be in [0, " << limit << ")";
  }
}

// By way of fp32 where one side is fp64: tests and finite differences only.
template <class To, class From>
To convert(From x) {
  return static_cast<To>(static_cast<float>(x));
}

// by_type, or fp64.
template <class Body>
void by_float(device::DType type, const Body& body) {
  if (type == device::DType::kF64) {
    body.template operator()<double>();
  } else {
    by_type(type, body);
  }
}

}  // namespace

template <Isa kIsa>
void fill(Stream& stream, const Fill& op) {
  check_shapes(op);
  const std::int64_t n = op.y.elements();
  const float value = op.value;
  if (op.y.type() == device::DType::kF64) {
    double* y = op.y.data<double>();
    stream.enqueue([=](device::StreamContext&) { std::fill(y, y + n, static_cast<double>(value)); });
    return;
  }
  by_type(op.y.type(), [&]<class T>() {
    T* y = op.y.template data<T>();
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        fill_elements<kIsa, T>(y + begin, value, end - begin);
      });
    });
  });
}

template <Isa kIsa>
void cast(Stream& stream, const Cast& op) {
  check_shapes(op);
  const std::int64_t n = op.y.elements();
  by_float(op.y.type(), [&]<class To>() {
    by_float(op.x.type(), [&]<class From>() {
      To* y = op.y.template data<To>();
      const From* x = op.x.template data<From>();
      stream.enqueue([=](device::StreamContext& context) {
        context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
          if constexpr (std::is_same_v<To, From>) {
            if (x != y) std::memcpy(y + begin, x + begin, static_cast<std::size_t>(end - begin) * sizeof(To));
          } else if constexpr (std::is_same_v<To, double> || std::is_same_v<From, double>) {
            for (std::int64_t i = begin; i < end; ++i) y[i] = convert<To>(x[i]);
          } else {
            cast_elements<kIsa, To, From>(y + begin, x + begin, end - begin);
          }
        });
      });
    });
  });
}

template <Isa kIsa>
void add(Stream& stream, const Add& op) {
  check_shapes(op);
  const std::int64_t n = op.y.elements();
  by_type(op.y.type(), [&]<class T>() {
    T* y = op.y.template data<T>();
    const T* a = op.a.template data<T>();
    const T* b = op.b.template data<T>();
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        add_elements<kIsa, T>(y + begin, a + begin, b + begin, end - begin);
      });
    });
  });
}

template <Isa kIsa>
void embedding(Stream& stream, const Embedding& op) {
  check_shapes(op);
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.y.shape()[-1], n = op.y.elements() / c;
    const std::int64_t vocabulary = op.weight.elements() / c,
                       places = op.positions ? op.position_weight.elements() / c : 0;
    T* y = op.y.template data<T>();
    const std::int32_t* tokens = op.tokens.data<std::int32_t>();
    const T* weight = op.weight.template data<T>();
    const std::int32_t* positions = optional<std::int32_t>(op.positions);
    const T* position_weight = positions ? op.position_weight.template data<T>() : nullptr;
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, rows_per_piece(c), [&](std::int64_t begin, std::int64_t end) {
        check_ids(tokens, begin, end, vocabulary, "token");
        if (positions) check_ids(positions, begin, end, places, "position");
        for (std::int64_t row = begin; row < end; ++row) {
          const T* from = weight + tokens[row] * c;
          if (positions) {
            add_elements<kIsa, T>(y + row * c, from, position_weight + positions[row] * c, c);
          } else {
            std::memcpy(y + row * c, from, static_cast<std::size_t>(c) * sizeof(T));
          }
        }
      });
    });
  });
}

template <Isa kIsa>
void embedding_weight_gradient(Stream& stream, const EmbeddingWeightGradient& op) {
  check_shapes(op);
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t c = op.dy.shape()[-1], n = op.dy.elements() / c;
    const std::int64_t vocabulary = op.dweight.elements() / c,
                       places = op.positions ? op.dposition_weight.elements() / c : 0;
    float* dweight = op.dweight.data<float>();
    const std::int32_t* tokens = op.tokens.data<std::int32_t>();
    const std::int32_t* positions = optional<std::int32_t>(op.positions);
    float* dposition_weight = positions ? op.dposition_weight.data<float>() : nullptr;
    const T* dy = op.dy.template data<T>();
    stream.enqueue([=](device::StreamContext& context) {
      check_ids(tokens, 0, n, vocabulary, "token");
      if (positions) check_ids(positions, 0, n, places, "position");
      context.team.split(c, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < n; ++row) {
          const T* from = dy + row * c + begin;
          accumulate_elements<kIsa, T>(dweight + tokens[row] * c + begin, from, end - begin);
          if (positions)
            accumulate_elements<kIsa, T>(dposition_weight + positions[row] * c + begin, from, end - begin);
        }
      });
    });
  });
}

template <Isa kIsa>
void rope(Stream& stream, const Rope& op) {
  check_shapes(op);
  by_type(op.qkv.type(), [&]<class T>() {
    const std::int64_t width = op.qkv.shape()[-1], n = op.qkv.elements() / width,
                       all = op.q_heads + 2 * op.kv_heads;
    const std::int64_t pairs = width / all / 2, heads = op.q_heads + op.kv_heads;
    TROUPE_CHECK(pairs <= kMaxRopePairs)
        << "rope heads of " << 2 * pairs << ", at most " << 2 * kMaxRopePairs;
    T* qkv = op.qkv.template data<T>();
    const std::int32_t* positions = op.positions.data<std::int32_t>();
    const float* inverse_frequency = op.inverse_frequency.data<float>();
    const bool inverse = op.inverse;
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, rows_per_piece(heads * 2 * pairs), [&](std::int64_t begin, std::int64_t end) {
        rope_rows<kIsa, T>(qkv, positions, inverse_frequency, heads, pairs, width, inverse, begin, end);
      });
    });
  });
}

TROUPE_CPU_OP(fill, Fill);
TROUPE_CPU_OP(cast, Cast);
TROUPE_CPU_OP(add, Add);
TROUPE_CPU_OP(embedding, Embedding);
TROUPE_CPU_OP(embedding_weight_gradient, EmbeddingWeightGradient);
TROUPE_CPU_OP(rope, Rope);

}  // namespace troupe::kernels::cpu
