#include "kernels/cpu/isa/elementwise.h"

#include <cstring>

#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

// Ids come from the corpus: one outside the table would read or write another tensor.
void check_ids(const std::int32_t* ids, std::int64_t begin, std::int64_t end, std::int64_t limit, const char* what) {
  for (std::int64_t i = begin; i < end; ++i) {
    TROUPE_CHECK(ids[i] >= 0 && ids[i] < limit) << what << " " << ids[i] << " at " << i << ", must be in [0, " << limit << ")";
  }
}

// Threads share out channels of the embedding's gradient: whole cache lines of fp32.
constexpr std::int64_t kColumnGrain = 16;

}  // namespace

template <Isa kIsa>
void fill(Stream& stream, const Fill& op) {
  const std::int64_t n = op.y.elements();
  const float value = op.value;
  if (op.y.type() == device::DType::kF64) {
    double* y = needed<double>(op.y, n, "fill y");
    stream.enqueue([=](device::StreamContext&) {
      for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<double>(value);
    });
    return;
  }
  by_type(op.y.type(), [&]<class T>() {
    T* y = needed<T>(op.y, n, "fill y");
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        fill_elements<kIsa, T>(y + begin, value, end - begin);
      });
    });
  });
}

template <Isa kIsa>
void cast(Stream& stream, const Cast& op) {
  const std::int64_t n = op.y.elements();
  by_type(op.y.type(), [&]<class To>() {
    by_type(op.x.type(), [&]<class From>() {
      To* y = needed<To>(op.y, n, "cast y");
      const From* x = needed<From>(op.x, n, "cast x");
      stream.enqueue([=](device::StreamContext& context) {
        context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
          if constexpr (std::is_same_v<To, From>) {
            std::memmove(y + begin, x + begin, static_cast<std::size_t>(end - begin) * sizeof(To));
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
  const std::int64_t n = op.y.elements();
  by_type(op.y.type(), [&]<class T>() {
    T* y = needed<T>(op.y, n, "add y");
    const T* a = needed<T>(op.a, n, "add a");
    const T* b = needed<T>(op.b, n, "add b");
    stream.enqueue([=](device::StreamContext& context) {
      context.team.split(n, kPieceElements, [&](std::int64_t begin, std::int64_t end) {
        add_elements<kIsa, T>(y + begin, a + begin, b + begin, end - begin);
      });
    });
  });
}

template <Isa kIsa>
void embedding(Stream& stream, const Embedding& op) {
  by_type(op.y.type(), [&]<class T>() {
    const std::int64_t c = op.y.shape()[-1], n = op.y.elements() / c;
    const std::int64_t vocabulary = op.weight.elements() / c, places = op.positions ? op.position_weight.elements() / c : 0;
    T* y = needed<T>(op.y, n * c, "embedding y");
    const std::int32_t* tokens = needed<std::int32_t>(op.tokens, n, "embedding tokens");
    const T* weight = needed<T>(op.weight, vocabulary * c, "embedding weight");
    const std::int32_t* positions = op.positions ? checked<std::int32_t>(op.positions, n, "embedding positions") : nullptr;
    const T* position_weight = positions ? needed<T>(op.position_weight, places * c, "embedding position_weight") : nullptr;
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
  by_type(op.dy.type(), [&]<class T>() {
    const std::int64_t c = op.dy.shape()[-1], n = op.dy.elements() / c;
    const std::int64_t vocabulary = op.dweight.elements() / c, places = op.positions ? op.dposition_weight.elements() / c : 0;
    float* dweight = needed<float>(op.dweight, vocabulary * c, "embedding dweight");
    const std::int32_t* tokens = needed<std::int32_t>(op.tokens, n, "embedding tokens");
    const std::int32_t* positions = op.positions ? checked<std::int32_t>(op.positions, n, "embedding positions") : nullptr;
    float* dposition_weight = positions ? needed<float>(op.dposition_weight, places * c, "embedding dposition_weight") : nullptr;
    const T* dy = needed<T>(op.dy, n * c, "embedding dy");
    stream.enqueue([=](device::StreamContext& context) {
      check_ids(tokens, 0, n, vocabulary, "token");
      if (positions) check_ids(positions, 0, n, places, "position");
      context.team.split(c, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < n; ++row) {
          const T* from = dy + row * c + begin;
          accumulate_elements<kIsa, T>(dweight + tokens[row] * c + begin, from, end - begin);
          if (positions) accumulate_elements<kIsa, T>(dposition_weight + positions[row] * c + begin, from, end - begin);
        }
      });
    });
  });
}

template <Isa kIsa>
void rope(Stream& stream, const Rope& op) {
  by_type(op.qkv.type(), [&]<class T>() {
    const std::int64_t width = op.qkv.shape()[-1], n = op.qkv.elements() / width, all = op.q_heads + 2 * op.kv_heads;
    TROUPE_CHECK(all > 0 && width % (2 * all) == 0) << "a row of " << width << " for " << op.q_heads << " + 2 x " << op.kv_heads << " heads";
    const std::int64_t pairs = width / all / 2, heads = op.q_heads + op.kv_heads;
    TROUPE_CHECK(pairs <= kMaxRopePairs) << "rope heads of " << 2 * pairs << ", at most " << 2 * kMaxRopePairs;
    T* qkv = needed<T>(op.qkv, n * width, "rope qkv");
    const std::int32_t* positions = needed<std::int32_t>(op.positions, n, "rope positions");
    const float* inverse_frequency = needed<float>(op.inverse_frequency, pairs, "rope inverse_frequency");
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
