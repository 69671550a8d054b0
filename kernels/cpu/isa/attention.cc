// K and V of a head are widened to fp32 once, K (and for the backward V) as panels of tile columns. Then
// query tile by query tile, key tile by key tile: scores, softmax, product, each in register tiles (tile.h).
// What lies wholly above the diagonal or before the document is skipped by register tile.
#include "kernels/cpu/isa/attention_tile.h"
#include "kernels/cpu/isa/simd_math.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

// One step of the online softmax: scores become exp(score - largest) within `seen`, zero elsewhere in
// `columns`; returns the factor by which earlier sums shrink.
TROUPE_SIMD float softmax_step(float* scores, QueryTile::Columns columns, QueryTile::Columns seen,
                               float& largest_so_far, float& sum_so_far) {
  if (seen.begin >= seen.end) {
    zero(scores + columns.begin, columns.end - columns.begin);
    return 1.0f;
  }
  constexpr float kNothing = -__builtin_inff();
  const auto wholly_seen = [&](std::int64_t c) __attribute__((always_inline)) {
    return c >= seen.begin && c + kLanes <= seen.end;
  };
  F32 most_seen = broadcast(kNothing);
  for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
    const F32 x = load(scores + c);
    most_seen = max(most_seen, wholly_seen(c) ? x : seen_lanes(x, c, seen, kNothing));
  }
  const float row_largest = largest(most_seen);
  const float shift = row_largest > largest_so_far ? row_largest : largest_so_far;
  F32 total = {};
  for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
    F32 p = exp_within(load(scores + c) - shift);  // at least e^-87, which no sum notices
    if (!wholly_seen(c)) p = seen_lanes(p, c, seen, 0.0f);
    store(scores + c, p);
    total += p;
  }
  const float shrink = largest_so_far == kNothing ? 0.0f : exp(broadcast(largest_so_far - shift))[0];
  largest_so_far = shift;
  sum_so_far = sum_so_far * shrink + sum(total);
  return shrink;
}

TROUPE_SIMD void scale_row(float* row, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; i += kLanes) store(row + i, load(row + i) * factor);
}

template <class T>
void forward_tile(const AttentionGroup<T>& g, std::int64_t head, std::int64_t begin, const float* k_panels,
                  const float* v, float* q, float* out, float* scores, const KeySchedule& keys) {
  const std::int64_t dim = g.head_dim, padded = round_up(dim, kN);
  const QueryTile tile = QueryTile::of(g, begin, kForwardTiles);
  widen_tile(q, g.q + head * dim + begin * g.stride, g.stride, tile.count, tile.tiles * kM, dim, padded,
             g.scale);
  float largest_seen[kForwardTiles * kM], sums[kForwardTiles * kM];
  bool started[kForwardTiles] = {};
  for (std::int64_t i = 0; i < tile.tiles * kM; ++i) {
    largest_seen[i] = -__builtin_inff();
    sums[i] = 0;
  }
  for (std::int64_t key = tile.lowest_key / kKeys * kKeys; key < begin + tile.count; key += kKeys) {
    for (std::int64_t n = 0; n < kKeys; n += kN) {
      for (std::int64_t r = 0; r < tile.tiles; ++r) {
        const auto columns = tile.columns(r, key);
        if (n < columns.begin || n >= columns.end) continue;
        multiply_rows<kRowStep>(q + r * kM * kRowStep, k_panels + (key + n) * dim, kN,
                                scores + r * kM * kScoreStep + n, kScoreStep, dim, false);
      }
    }
    for (std::int64_t i = 0; i < tile.tiles * kM; ++i) {
      const auto columns = tile.columns(i / kM, key);
      if (columns.begin >= columns.end) continue;
      const float shrink =
          softmax_step(scores + i * kScoreStep, columns, seen(g, begin + i, key), largest_seen[i], sums[i]);
      if (started[i / kM] && shrink != 1.0f) scale_row(out + i * kRowStep, padded, shrink);
      if (g.dropout.threshold > 0) {  // of what is weighed, not of the sum
        RowWords words;
        words.draw(g, keys, head, begin + i, key, columns);
        words.drop(scores + i * kScoreStep, columns, g.dropout);
      }
    }
    for (std::int64_t c = 0; c < padded; c += kN) {
      for (std::int64_t r = 0; r < tile.tiles; ++r) {
        const auto columns = tile.columns(r, key);
        if (columns.begin >= columns.end) continue;
        multiply_rows<kScoreStep>(scores + r * kM * kScoreStep + columns.begin,
                                  v + (key + columns.begin) * padded + c, padded, out + r * kM * kRowStep + c,
                                  kRowStep, columns.end - columns.begin, started[r]);
      }
    }
    for (std::int64_t r = 0; r < tile.tiles; ++r) {
      const auto columns = tile.columns(r, key);
      started[r] = started[r] || columns.begin < columns.end;
    }
  }
  for (std::int64_t i = 0; i < tile.count; ++i) {
    store_row(g.out + head * dim + (begin + i) * g.out_stride, out + i * kRowStep, dim, 1.0f / sums[i]);
    g.log_sum_exp[head * g.tokens + begin + i] = largest_seen[i] + __builtin_logf(sums[i]);
  }
}

}  // namespace
}  // namespace TROUPE_ISA

using namespace TROUPE_ISA;

template <Isa>
std::int64_t attention_scratch_floats(std::int64_t tokens, std::int64_t head_dim) {
  const std::int64_t padded_tokens = round_up(tokens, kKeys), padded = round_up(head_dim, kN);
  return padded_tokens * (2 * head_dim + 3 * padded) + kMostTiles * kM * (3 * kRowStep + 2 * kScoreStep);
}

template <Isa, class T>
void attention_group(const AttentionGroup<T>& g, int part, int parts) {
  const std::int64_t padded_tokens = round_up(g.tokens, kKeys), padded = round_up(g.head_dim, kN);
  float* k_panels = g.scratch;
  float* v = k_panels + padded_tokens * g.head_dim;
  float* q = v + padded_tokens * padded;
  float* out = q + kForwardTiles * kM * kRowStep;
  float* scores = out + kForwardTiles * kM * kRowStep;
  pack_all(k_panels, g.k, g.stride, g.tokens, padded_tokens, g.head_dim);
  widen_all(v, g.v, g.stride, g.tokens, padded_tokens, g.head_dim, padded);
  const KeySchedule keys = schedule(g.dropout);
  std::int64_t index = 0;
  for (std::int64_t head = 0; head < g.heads; ++head) {
    for (std::int64_t begin = 0; begin < g.tokens; begin += kForwardTiles * kM, ++index) {
      const std::int64_t place =
          index % (2 * parts);  // there and back again: a late tile costs more than an early one
      if (place == part || place == 2 * parts - 1 - part)
        forward_tile(g, head, begin, k_panels, v, q, out, scores, keys);
    }
  }
}

template std::int64_t attention_scratch_floats<kIsa>(std::int64_t, std::int64_t);
template void attention_group<kIsa, float>(const AttentionGroup<float>&, int, int);
template void attention_group<kIsa, bfloat16>(const AttentionGroup<bfloat16>&, int, int);

}  // namespace troupe::kernels::cpu
