// K and V of a head are widened to fp32 once, K (and for the backward V) as panels of tile columns. Then query tile by query tile,
// key tile by key tile: scores, softmax, product, each in register tiles (tile.h). What lies wholly above the diagonal or before
// the document is skipped by register tile.
#include "kernels/cpu/isa/attention.h"

#include "kernels/cpu/isa/simd_math.h"
#include "kernels/cpu/isa/tile.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

constexpr std::int64_t kM = kTileRows, kN = kTileColumns;
// Keys per tile: whole register tiles both as columns (scores) and as rows (dK, dV).
constexpr std::int64_t kKeys = kLanes == 16 ? 224 : 192;
constexpr std::int64_t kForwardTiles = 4, kBackwardTiles = kLanes == 16 ? 4 : 8;  // register tiles per query tile
constexpr std::int64_t kMostTiles = kBackwardTiles > kForwardTiles ? kBackwardTiles : kForwardTiles;
constexpr std::int64_t kRowStep = kAttentionHeadDimMost + 8, kScoreStep = kKeys + 8;  // off the set stride of L1
static_assert(kKeys % kM == 0 && kKeys % kN == 0);

// The register tile with the strides that occur here.
template <std::int64_t kStep>
void multiply_rows(const float* a, const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride, std::int64_t depth,
                   bool accumulate) {
  multiply_tile<kM, kTileVectors>(a, kStep, 1, b, b_stride, c, c_stride, depth, accumulate);
}
// a is the transpose of rows of scores.
void multiply_columns(const float* a, const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride, std::int64_t depth) {
  multiply_tile<kM, kTileVectors>(a, 1, kScoreStep, b, b_stride, c, c_stride, depth, true);
}

template <class T>
TROUPE_SIMD void widen_scaled(float* to, const T* from, std::int64_t count, std::int64_t padded, float scale) {
  blocks(count, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) { store(to + i, load(from + i, lanes) * scale, lanes); });
  for (std::int64_t i = count; i < padded; ++i) to[i] = 0.0f;
}

// A head's rows lie a fused row apart, further than the hardware looks ahead.
constexpr std::int64_t kRowsAhead = 12;
template <class T>
TROUPE_SIMD void prefetch_row(const T* row, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(row + i);
}

void zero(float* to, std::int64_t count) {
  blocks(count, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) { store(to + i, F32{}, lanes); });
}

// `count` rows to `rows` rows of kRowStep floats, zero beyond.
template <class T>
void widen_tile(float* to, const T* from, std::int64_t stride, std::int64_t count, std::int64_t rows, std::int64_t dim,
                std::int64_t padded, float scale) {
  for (std::int64_t i = 0; i < rows; ++i, to += kRowStep) {
    if (i < count) {
      prefetch_row(from + least(i + kRowsAhead, count - 1) * stride, dim);
      widen_scaled(to, from + i * stride, dim, padded, scale);
    } else {
      zero(to, padded);
    }
  }
}

template <class T>
void widen_all(float* to, const T* from, std::int64_t stride, std::int64_t tokens, std::int64_t padded_tokens, std::int64_t dim,
               std::int64_t padded) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    prefetch_row(from + least(t + kRowsAhead, tokens - 1) * stride, dim);
    widen_scaled(to + t * padded, from + t * stride, dim, padded, 1.0f);
  }
  zero(to + tokens * padded, (padded_tokens - tokens) * padded);
}

// Keys as panels: panel p is `dim` times kN floats, the keys [p kN, (p + 1) kN).
template <class T>
void pack_all(float* to, const T* from, std::int64_t stride, std::int64_t tokens, std::int64_t padded_tokens, std::int64_t dim) {
  std::int64_t t = 0;
  for (; t < tokens; t += kN) {
    for (std::int64_t i = t + kN; i < least(t + 2 * kN, tokens); ++i) prefetch_row(from + i * stride, dim);
    pack_panel(to + t * dim, from + t * stride, stride, true, tokens - t, dim);
  }
  if (t < padded_tokens) zero(to + t * dim, (padded_tokens - t) * dim);
}

// What the register-tile rows of a query tile see.
struct QueryTile {
  std::int64_t begin, count, tiles;  // tokens [begin, begin + count), in `tiles` register tiles
  std::int64_t first_key[kMostTiles], last_key[kMostTiles];
  std::int64_t lowest_key;

  // The tokens beyond the last see what the last sees; their rows are zero and go nowhere.
  template <class T>
  static QueryTile of(const AttentionGroup<T>& g, std::int64_t begin, std::int64_t most_tiles) {
    QueryTile tile;
    tile.begin = begin;
    tile.count = least(most_tiles * kM, g.tokens - begin);
    tile.tiles = (tile.count + kM - 1) / kM;
    tile.lowest_key = begin;
    for (std::int64_t r = 0; r < tile.tiles; ++r) {
      const std::int64_t from = begin + r * kM, to = least(from + kM, g.tokens);
      tile.last_key[r] = to - 1;
      tile.first_key[r] = g.document_start ? from : 0;
      for (std::int64_t t = from; g.document_start && t < to; ++t) tile.first_key[r] = least(tile.first_key[r], g.document_start[t]);
      tile.lowest_key = least(tile.lowest_key, tile.first_key[r]);
    }
    return tile;
  }
  // Columns of the key tile at `key` that register tile r sees, whole panels.
  struct Columns {
    std::int64_t begin, end;
  };
  TROUPE_SIMD Columns columns(std::int64_t r, std::int64_t key) const {
    const std::int64_t end = least(round_up(last_key[r] + 1 - key, kN), kKeys);
    return {most(first_key[r] - key, 0) / kN * kN, most(end, 0)};
  }
};

// Columns of the key tile at `key` that token t sees.
template <class T>
TROUPE_SIMD QueryTile::Columns seen(const AttentionGroup<T>& g, std::int64_t t, std::int64_t key) {
  t = least(t, g.tokens - 1);
  return {most(g.document_start ? g.document_start[t] - key : 0, 0), least(t + 1 - key, kKeys)};
}

TROUPE_SIMD F32 seen_lanes(F32 x, std::int64_t column, QueryTile::Columns seen, float otherwise) {
  const I32 at = iota() + static_cast<std::int32_t>(column);
  const I32 inside = (at >= static_cast<std::int32_t>(seen.begin)) & (at < static_cast<std::int32_t>(seen.end));
  return inside ? x : broadcast(otherwise);
}

// One step of the online softmax: scores become exp(score - largest) within `seen`, zero elsewhere in `columns`; returns the factor
// by which earlier sums shrink.
TROUPE_SIMD float softmax_step(float* scores, QueryTile::Columns columns, QueryTile::Columns seen, float& largest_so_far,
                               float& sum_so_far) {
  if (seen.begin >= seen.end) {
    zero(scores + columns.begin, columns.end - columns.begin);
    return 1.0f;
  }
  constexpr float kNothing = -__builtin_inff();
  const auto wholly_seen = [&](std::int64_t c) __attribute__((always_inline)) { return c >= seen.begin && c + kLanes <= seen.end; };
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
TROUPE_SIMD void store_row(T* to, const float* from, std::int64_t count, float factor) {
  blocks(count, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) { store(to + i, load(from + i, lanes) * factor, lanes); });
}

template <class T>
void forward_tile(const AttentionGroup<T>& g, std::int64_t head, std::int64_t begin, const float* k_panels, const float* v, float* q,
                  float* out, float* scores) {
  const std::int64_t dim = g.head_dim, padded = round_up(dim, kN);
  const QueryTile tile = QueryTile::of(g, begin, kForwardTiles);
  widen_tile(q, g.q + head * dim + begin * g.stride, g.stride, tile.count, tile.tiles * kM, dim, padded, g.scale);
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
        multiply_rows<kRowStep>(q + r * kM * kRowStep, k_panels + (key + n) * dim, kN, scores + r * kM * kScoreStep + n, kScoreStep,
                                dim, false);
      }
    }
    for (std::int64_t i = 0; i < tile.tiles * kM; ++i) {
      const auto columns = tile.columns(i / kM, key);
      if (columns.begin >= columns.end) continue;
      const float shrink = softmax_step(scores + i * kScoreStep, columns, seen(g, begin + i, key), largest_seen[i], sums[i]);
      if (started[i / kM] && shrink != 1.0f) scale_row(out + i * kRowStep, padded, shrink);
    }
    for (std::int64_t c = 0; c < padded; c += kN) {
      for (std::int64_t r = 0; r < tile.tiles; ++r) {
        const auto columns = tile.columns(r, key);
        if (columns.begin >= columns.end) continue;
        multiply_rows<kScoreStep>(scores + r * kM * kScoreStep + columns.begin, v + (key + columns.begin) * padded + c, padded,
                                  out + r * kM * kRowStep + c, kRowStep, columns.end - columns.begin, started[r]);
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

// The scratch of the backward pass, one array after another.
struct GradientScratch {
  float *k_panels, *v_panels, *k, *dk, *dv, *q, *dout, *dq, *p, *ds;
};

// Scores and dP of a key tile become P and dS = P (dP - delta), zero wherever a register tile of dK and dV will look.
template <class T>
TROUPE_SIMD void probabilities(const AttentionGroup<T>& g, const QueryTile& tile, std::int64_t key, QueryTile::Columns all,
                               const float* log_sum_exp, const float* delta, float* p, float* ds) {
  const std::int64_t from = all.begin / kM * kM, to = round_up(all.end, kM);
  for (std::int64_t i = 0; i < tile.tiles * kM; ++i, p += kScoreStep, ds += kScoreStep) {
    auto columns = tile.columns(i / kM, key);
    if (columns.begin >= columns.end) columns = {to, to};
    const auto inside = seen(g, tile.begin + i, key);
    for (std::int64_t c = from; c < columns.begin; ++c) p[c] = ds[c] = 0.0f;
    for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
      F32 x = exp_within(load(p + c) - log_sum_exp[i]);
      if (c < inside.begin || c + kLanes > inside.end) x = seen_lanes(x, c, inside, 0.0f);
      store(p + c, x);
      store(ds + c, x * (load(ds + c) - delta[i]));
    }
    for (std::int64_t c = columns.end; c < to; ++c) p[c] = ds[c] = 0.0f;
  }
}

template <class T>
void backward_tile(const AttentionGroup<T>& g, const AttentionGroupGradient<T>& gradient, std::int64_t head, std::int64_t begin,
                   const GradientScratch& s) {
  const std::int64_t dim = g.head_dim, padded = round_up(dim, kN);
  const QueryTile tile = QueryTile::of(g, begin, kBackwardTiles);
  const std::int64_t rows = tile.tiles * kM;
  const T* dout = gradient.dout + head * dim + begin * g.out_stride;
  const T* out = g.out + head * dim + begin * g.out_stride;
  widen_tile(s.q, g.q + head * dim + begin * g.stride, g.stride, tile.count, rows, dim, padded, g.scale);
  widen_tile(s.dout, dout, g.out_stride, tile.count, rows, dim, padded, 1.0f);
  float delta[kBackwardTiles * kM] = {}, log_sum_exp[kBackwardTiles * kM] = {};
  for (std::int64_t i = 0; i < tile.count; ++i) {
    F32 dot = {};
    blocks(dim, [&](std::int64_t c, auto lanes) __attribute__((always_inline)) {
      dot = fma(load(out + i * g.out_stride + c, lanes), load(dout + i * g.out_stride + c, lanes), dot);
    });
    delta[i] = sum(dot);
    log_sum_exp[i] = g.log_sum_exp[head * g.tokens + begin + i];
  }
  bool started[kBackwardTiles] = {};
  for (std::int64_t key = tile.lowest_key / kKeys * kKeys; key < begin + tile.count; key += kKeys) {
    QueryTile::Columns all{kKeys, 0};
    for (std::int64_t r = 0; r < tile.tiles; ++r) {
      const auto columns = tile.columns(r, key);
      if (columns.begin >= columns.end) continue;
      all = {least(all.begin, columns.begin), most(all.end, columns.end)};
    }
    if (all.begin >= all.end) continue;
    for (std::int64_t n = all.begin; n < all.end; n += kN) {
      for (std::int64_t r = 0; r < tile.tiles; ++r) {
        const auto columns = tile.columns(r, key);
        if (n < columns.begin || n >= columns.end) continue;
        const std::int64_t at = r * kM * kScoreStep + n;
        multiply_rows<kRowStep>(s.q + r * kM * kRowStep, s.k_panels + (key + n) * dim, kN, s.p + at, kScoreStep, dim, false);
        multiply_rows<kRowStep>(s.dout + r * kM * kRowStep, s.v_panels + (key + n) * dim, kN, s.ds + at, kScoreStep, dim, false);
      }
    }
    probabilities(g, tile, key, all, log_sum_exp, delta, s.p, s.ds);
    for (std::int64_t c = 0; c < padded; c += kN) {
      std::int64_t r = 0;  // the first register tile that sees the keys, or later ones
      for (std::int64_t i = all.begin / kM * kM; i < all.end; i += kM) {
        while (tile.columns(r, key).end <= i) ++r;
        const std::int64_t from = r * kM, depth = rows - from, to = (key + i) * padded + c;
        multiply_columns(s.p + from * kScoreStep + i, s.dout + from * kRowStep + c, kRowStep, s.dv + to, padded, depth);
        multiply_columns(s.ds + from * kScoreStep + i, s.q + from * kRowStep + c, kRowStep, s.dk + to, padded, depth);
      }
      for (r = 0; r < tile.tiles; ++r) {
        const auto columns = tile.columns(r, key);
        if (columns.begin >= columns.end) continue;
        multiply_rows<kScoreStep>(s.ds + r * kM * kScoreStep + columns.begin, s.k + (key + columns.begin) * padded + c, padded,
                                  s.dq + r * kM * kRowStep + c, kRowStep, columns.end - columns.begin, started[r]);
      }
    }
    for (std::int64_t r = 0; r < tile.tiles; ++r) {
      const auto columns = tile.columns(r, key);
      started[r] = started[r] || columns.begin < columns.end;
    }
  }
  for (std::int64_t i = 0; i < tile.count; ++i) {
    store_row(gradient.dq + head * dim + (begin + i) * g.stride, s.dq + i * kRowStep, dim, g.scale);
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
  std::int64_t index = 0;
  for (std::int64_t head = 0; head < g.heads; ++head) {
    for (std::int64_t begin = 0; begin < g.tokens; begin += kForwardTiles * kM, ++index) {
      const std::int64_t place = index % (2 * parts);  // there and back again: a late tile costs more than an early one
      if (place == part || place == 2 * parts - 1 - part) forward_tile(g, head, begin, k_panels, v, q, out, scores);
    }
  }
}

template <Isa, class T>
void attention_group_gradient(const AttentionGroup<T>& g, const AttentionGroupGradient<T>& gradient) {
  const std::int64_t padded_tokens = round_up(g.tokens, kKeys), padded = round_up(g.head_dim, kN);
  float* at = g.scratch;
  const auto take = [&](std::int64_t count) __attribute__((always_inline)) {
    float* taken = at;
    at += count;
    return taken;
  };
  GradientScratch s;
  s.k_panels = take(padded_tokens * g.head_dim);
  s.v_panels = take(padded_tokens * g.head_dim);
  s.k = take(padded_tokens * padded);
  s.dk = take(padded_tokens * padded);
  s.dv = take(padded_tokens * padded);
  for (float** tile : {&s.q, &s.dout, &s.dq}) *tile = take(kBackwardTiles * kM * kRowStep);
  for (float** tile : {&s.p, &s.ds}) *tile = take(kBackwardTiles * kM * kScoreStep);
  pack_all(s.k_panels, g.k, g.stride, g.tokens, padded_tokens, g.head_dim);
  pack_all(s.v_panels, g.v, g.stride, g.tokens, padded_tokens, g.head_dim);
  widen_all(s.k, g.k, g.stride, g.tokens, padded_tokens, g.head_dim, padded);
  zero(s.dk, 2 * padded_tokens * padded);  // dk and dv
  for (std::int64_t head = 0; head < g.heads; ++head) {
    for (std::int64_t begin = 0; begin < g.tokens; begin += kBackwardTiles * kM) backward_tile(g, gradient, head, begin, s);
  }
  for (std::int64_t t = 0; t < g.tokens; ++t) {
    store_row(gradient.dk + t * g.stride, s.dk + t * padded, g.head_dim, 1.0f);
    store_row(gradient.dv + t * g.stride, s.dv + t * padded, g.head_dim, 1.0f);
  }
}

template std::int64_t attention_scratch_floats<kIsa>(std::int64_t, std::int64_t);
template void attention_group<kIsa, float>(const AttentionGroup<float>&, int, int);
template void attention_group<kIsa, bfloat16>(const AttentionGroup<bfloat16>&, int, int);
template void attention_group_gradient<kIsa, float>(const AttentionGroup<float>&, const AttentionGroupGradient<float>&);
template void attention_group_gradient<kIsa, bfloat16>(const AttentionGroup<bfloat16>&, const AttentionGroupGradient<bfloat16>&);

}  // namespace troupe::kernels::cpu
