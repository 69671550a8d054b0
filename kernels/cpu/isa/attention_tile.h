// What the forward and the backward of attention share: tile sizes, widening and packing of heads, and which
// keys a query tile sees.
#pragma once

#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/isa/philox.h"
#include "kernels/cpu/isa/tile.h"

namespace troupe::kernels::cpu::TROUPE_ISA {

inline constexpr std::int64_t kM = kTileRows, kN = kTileColumns;
// Keys per tile: whole register tiles both as columns (scores) and as rows (dK, dV).
inline constexpr std::int64_t kKeys = kLanes == 16 ? 224 : 192;
inline constexpr std::int64_t kForwardTiles = 4,
                              kBackwardTiles = kLanes == 16 ? 4 : 8;  // register tiles per query tile
inline constexpr std::int64_t kMostTiles = kBackwardTiles > kForwardTiles ? kBackwardTiles : kForwardTiles;
inline constexpr std::int64_t kRowStep = kAttentionHeadDimMost + 8,
                              kScoreStep = kKeys + 8;  // off the set stride of L1
static_assert(kKeys % kM == 0 && kKeys % kN == 0);

// The register tile with the strides that occur here.
template <std::int64_t kStep>
void multiply_rows(const float* a, const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                   std::int64_t depth, bool accumulate) {
  multiply_tile<kM, kTileVectors>(a, kStep, 1, b, b_stride, c, c_stride, depth, accumulate);
}
// a is the transpose of rows of scores.
inline void multiply_columns(const float* a, const float* b, std::int64_t b_stride, float* c,
                             std::int64_t c_stride, std::int64_t depth) {
  multiply_tile<kM, kTileVectors>(a, 1, kScoreStep, b, b_stride, c, c_stride, depth, true);
}

template <class T>
TROUPE_SIMD void widen_scaled(float* to, const T* from, std::int64_t count, std::int64_t padded,
                              float scale) {
  blocks(
      count, [&](std::int64_t i, auto lanes)
                 __attribute__((always_inline)) { store(to + i, load(from + i, lanes) * scale, lanes); });
  for (std::int64_t i = count; i < padded; ++i) to[i] = 0.0f;
}

// A head's rows lie a fused row apart, further than the hardware looks ahead.
inline constexpr std::int64_t kRowsAhead = 12;
template <class T>
TROUPE_SIMD void prefetch_row(const T* row, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += 64 / static_cast<std::int64_t>(sizeof(T)))
    __builtin_prefetch(row + i);
}

inline void zero(float* to, std::int64_t count) {
  blocks(
      count, [&](std::int64_t i, auto lanes) __attribute__((always_inline)) { store(to + i, F32{}, lanes); });
}

// `count` rows to `rows` rows of kRowStep floats, zero beyond.
template <class T>
void widen_tile(float* to, const T* from, std::int64_t stride, std::int64_t count, std::int64_t rows,
                std::int64_t dim, std::int64_t padded, float scale) {
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
void widen_all(float* to, const T* from, std::int64_t stride, std::int64_t tokens, std::int64_t padded_tokens,
               std::int64_t dim, std::int64_t padded) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    prefetch_row(from + least(t + kRowsAhead, tokens - 1) * stride, dim);
    widen_scaled(to + t * padded, from + t * stride, dim, padded, 1.0f);
  }
  zero(to + tokens * padded, (padded_tokens - tokens) * padded);
}

// Keys as panels: panel p is `dim` times kN floats, the keys [p kN, (p + 1) kN).
template <class T>
void pack_all(float* to, const T* from, std::int64_t stride, std::int64_t tokens, std::int64_t padded_tokens,
              std::int64_t dim) {
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
      for (std::int64_t t = from; g.document_start && t < to; ++t)
        tile.first_key[r] = least(tile.first_key[r], g.document_start[t]);
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
  const I32 inside =
      (at >= static_cast<std::int32_t>(seen.begin)) & (at < static_cast<std::int32_t>(seen.end));
  return inside ? x : broadcast(otherwise);
}

// The words of dropout for a row of scores: of token t of the group's q head `head`, by column. Columns begin at whole vectors, rows of words at
// whole Philox blocks.
struct RowWords {
  alignas(64) std::uint32_t of[kKeys + kWordsAtOnce];

  template <class T>
  TROUPE_SIMD void draw(const AttentionGroup<T>& g, const KeySchedule& keys, std::int64_t head, std::int64_t t, std::int64_t key,
                        QueryTile::Columns columns) {
    const std::int64_t row = g.first_word + (head * g.tokens + t) * round_up(g.tokens, 4);
    for (std::int64_t c = columns.begin; c < columns.end; c += kWordsAtOnce)
      TROUPE_ISA::draw(of + c, g.dropout, keys, static_cast<std::uint64_t>(row + key + c) / 4);
  }
  TROUPE_SIMD void drop(float* row, QueryTile::Columns columns, const DropoutMask& mask) const {
    for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
      U32 word;
      __builtin_memcpy(&word, of + c, sizeof word);
      store(row + c, word >= mask.threshold ? load(row + c) * mask.scale : F32{});
    }
  }
};

template <class T>
TROUPE_SIMD void store_row(T* to, const float* from, std::int64_t count, float factor) {
  blocks(
      count, [&](std::int64_t i, auto lanes)
                 __attribute__((always_inline)) { store(to + i, load(from + i, lanes) * factor, lanes); });
}

}  // namespace troupe::kernels::cpu::TROUPE_ISA
