// P again from the scores and the log-sum-exp, key tile by key tile: dV += P^T dO, dS = P (dO V^T - delta),
// dK += dS^T Q, dQ += dS K (Dao 2023). Skips what attention.cc skips. Dropout's mask is on dP, and on P for dV.
#include "kernels/cpu/isa/attention_tile.h"
#include "kernels/cpu/isa/simd_math.h"

namespace troupe::kernels::cpu {
namespace TROUPE_ISA {
namespace {

// The scratch of the backward pass, one array after another.
struct GradientScratch {
  float *k_panels, *v_panels, *k, *dk, *dv, *q, *dout, *dq, *p, *ds;
};

// Scores and dP of a key tile become P and dS = P (dP - delta), zero wherever a register tile of dK and dV
// will look.
template <class T>
TROUPE_SIMD void probabilities(const AttentionGroup<T>& g, const QueryTile& tile, std::int64_t head, std::int64_t key,
                               QueryTile::Columns all, const float* log_sum_exp, const float* delta,
                               const KeySchedule& keys, float* p, float* ds) {
  const bool drops = g.dropout.threshold > 0;
  RowWords words;
  const std::int64_t from = all.begin / kM * kM, to = round_up(all.end, kM);
  for (std::int64_t i = 0; i < tile.tiles * kM; ++i, p += kScoreStep, ds += kScoreStep) {
    auto columns = tile.columns(i / kM, key);
    if (columns.begin >= columns.end) columns = {to, to};
    const auto inside = seen(g, tile.begin + i, key);
    if (drops) {
      words.draw(g, keys, head, tile.begin + i, key, columns);
      words.drop(ds, columns, g.dropout);
    }
    for (std::int64_t c = from; c < columns.begin; ++c) p[c] = ds[c] = 0.0f;
    for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
      F32 x = exp_within(load(p + c) - log_sum_exp[i]);
      if (c < inside.begin || c + kLanes > inside.end) x = seen_lanes(x, c, inside, 0.0f);
      store(p + c, x);
      store(ds + c, x * (load(ds + c) - delta[i]));
    }
    if (drops) words.drop(p, columns, g.dropout);
    for (std::int64_t c = columns.end; c < to; ++c) p[c] = ds[c] = 0.0f;
  }
}

template <class T>
void backward_tile(const AttentionGroup<T>& g, const AttentionGroupGradient<T>& gradient, std::int64_t head,
                   std::int64_t begin, const KeySchedule& keys, const GradientScratch& s) {
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
    blocks(
        dim, [&](std::int64_t c, auto lanes) __attribute__((always_inline)) {
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
        multiply_rows<kRowStep>(s.q + r * kM * kRowStep, s.k_panels + (key + n) * dim, kN, s.p + at,
                                kScoreStep, dim, false);
        multiply_rows<kRowStep>(s.dout + r * kM * kRowStep, s.v_panels + (key + n) * dim, kN, s.ds + at,
                                kScoreStep, dim, false);
      }
    }
    probabilities(g, tile, head, key, all, log_sum_exp, delta, keys, s.p, s.ds);
    for (std::int64_t c = 0; c < padded; c += kN) {
      std::int64_t r = 0;  // the first register tile that sees the keys, or later ones
      for (std::int64_t i = all.begin / kM * kM; i < all.end; i += kM) {
        while (tile.columns(r, key).end <= i) ++r;
        const std::int64_t from = r * kM, depth = rows - from, to = (key + i) * padded + c;
        multiply_columns(s.p + from * kScoreStep + i, s.dout + from * kRowStep + c, kRowStep, s.dv + to,
                         padded, depth);
        multiply_columns(s.ds + from * kScoreStep + i, s.q + from * kRowStep + c, kRowStep, s.dk + to, padded,
                         depth);
      }
      for (r = 0; r < tile.tiles; ++r) {
        const auto columns = tile.columns(r, key);
        if (columns.begin >= columns.end) continue;
        multiply_rows<kScoreStep>(
            s.ds + r * kM * kScoreStep + columns.begin, s.k + (key + columns.begin) * padded + c, padded,
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
  s.q = take(kBackwardTiles * kM * kRowStep);
  s.dout = take(kBackwardTiles * kM * kRowStep);
  s.dq = take(kBackwardTiles * kM * kRowStep);
  s.p = take(kBackwardTiles * kM * kScoreStep);
  s.ds = take(kBackwardTiles * kM * kScoreStep);
  pack_all(s.k_panels, g.k, g.stride, g.tokens, padded_tokens, g.head_dim);
  pack_all(s.v_panels, g.v, g.stride, g.tokens, padded_tokens, g.head_dim);
  widen_all(s.k, g.k, g.stride, g.tokens, padded_tokens, g.head_dim, padded);
  zero(s.dk, 2 * padded_tokens * padded);  // dk and dv
  const KeySchedule keys = schedule(g.dropout);
  for (std::int64_t head = 0; head < g.heads; ++head) {
    for (std::int64_t begin = 0; begin < g.tokens; begin += kBackwardTiles * kM)
      backward_tile(g, gradient, head, begin, keys, s);
  }
  for (std::int64_t t = 0; t < g.tokens; ++t) {
    store_row(gradient.dk + t * g.stride, s.dk + t * padded, g.head_dim, 1.0f);
    store_row(gradient.dv + t * g.stride, s.dv + t * padded, g.head_dim, 1.0f);
  }
}

template void attention_group_gradient<kIsa, float>(const AttentionGroup<float>&,
                                                    const AttentionGroupGradient<float>&);
template void attention_group_gradient<kIsa, bfloat16>(const AttentionGroup<bfloat16>&,
                                                       const AttentionGroupGradient<bfloat16>&);

}  // namespace troupe::kernels::cpu
