// Chunks of sums that are mostly zero: only blocks that hold something travel, and a set that says which.
//
// A block is zero if all its bits are: one with a -0.0 holds something, so what is unpacked has the bits of what was packed, and a sum
// those that it has without this. The last block of a chunk may be short.
// Threads: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe::comm {

// A row of GPT-2 124M's embedding is three blocks in fp32; a set is 1 / 8192 of what it tells of.
inline constexpr std::int64_t kSparseBlockBytes = 1 << 10;
inline constexpr std::int64_t kSparseBlocksMost = 256;  // of a chunk

// Bit i % 64 of word i / 64: block i holds something.
struct BlockSet {
  std::array<std::uint64_t, kSparseBlocksMost / 64> words{};

  bool has(std::int64_t block) const { return (words[static_cast<std::size_t>(block / 64)] >> (block % 64) & 1) != 0; }
  void add(std::int64_t block) { words[static_cast<std::size_t>(block / 64)] |= std::uint64_t{1} << (block % 64); }
};

// The blocks that are not zero of a chunk of `bytes`, kSparseBlocksMost blocks at most.
BlockSet blocks_with_something(const std::byte* chunk, std::int64_t bytes);
// What the set's blocks of a chunk of `bytes` take; -1: it has blocks that the chunk has not, or the chunk is too large for a set.
std::int64_t packed_bytes(const BlockSet& blocks, std::int64_t bytes);
// `to` holds packed_bytes() and is elsewhere.
void pack(std::byte* to, const std::byte* chunk, std::int64_t bytes, const BlockSet& blocks);
// The other way, in place: the packed blocks lie at the chunk's end.
void unpack(std::byte* chunk, std::int64_t bytes, const BlockSet& blocks);

}  // namespace troupe::comm
