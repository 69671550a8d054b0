#include "comm/collective/sparse.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe::comm {
namespace {

constexpr std::int64_t kStripBytes = 128;  // looked at together; where something is, the first strip shows it most often

bool is_zero(const std::byte* bytes, std::int64_t count) {
  std::int64_t at = 0;
  for (; at + kStripBytes <= count; at += kStripBytes) {
    std::array<std::uint64_t, kStripBytes / sizeof(std::uint64_t)> words;
    std::memcpy(words.data(), bytes + at, kStripBytes);
    std::uint64_t any = 0;
    for (const std::uint64_t word : words) any |= word;
    if (any != 0) return false;
  }
  return std::all_of(bytes + at, bytes + count, [](std::byte byte) { return byte == std::byte{0}; });
}

std::int64_t blocks_of(std::int64_t bytes) { return (bytes + kSparseBlockBytes - 1) / kSparseBlockBytes; }

std::int64_t bytes_of(std::int64_t block, std::int64_t bytes) { return std::min(kSparseBlockBytes, bytes - block * kSparseBlockBytes); }

}  // namespace

BlockSet blocks_with_something(const std::byte* chunk, std::int64_t bytes) {
  BlockSet blocks;
  for (std::int64_t block = 0; block < blocks_of(bytes); ++block) {
    if (!is_zero(chunk + block * kSparseBlockBytes, bytes_of(block, bytes))) blocks.add(block);
  }
  return blocks;
}

std::int64_t packed_bytes(const BlockSet& blocks, std::int64_t bytes) {
  const std::int64_t all = blocks_of(bytes);
  if (all > kSparseBlocksMost) return -1;
  std::int64_t count = 0, last = -1;
  for (std::size_t i = 0; i < blocks.words.size(); ++i) {
    const std::uint64_t word = blocks.words[i];
    count += std::popcount(word);
    if (word != 0) last = static_cast<std::int64_t>(i) * 64 + 63 - std::countl_zero(word);
  }
  if (last >= all) return -1;
  return count * kSparseBlockBytes - (count > 0 && last == all - 1 ? all * kSparseBlockBytes - bytes : 0);
}

void pack(std::byte* to, const std::byte* chunk, std::int64_t bytes, const BlockSet& blocks) {
  for (std::int64_t block = 0; block < blocks_of(bytes); ++block) {
    if (!blocks.has(block)) continue;
    const std::int64_t count = bytes_of(block, bytes);
    std::memcpy(to, chunk + block * kSparseBlockBytes, static_cast<std::size_t>(count));
    to += count;
  }
}

// From the front: what is still packed lies behind, since as many blocks follow as are left at least.
void unpack(std::byte* chunk, std::int64_t bytes, const BlockSet& blocks) {
  const std::byte* packed = chunk + bytes - packed_bytes(blocks, bytes);
  for (std::int64_t block = 0; block < blocks_of(bytes); ++block) {
    const std::int64_t count = bytes_of(block, bytes);
    std::byte* to = chunk + block * kSparseBlockBytes;
    if (blocks.has(block)) {
      std::memmove(to, packed, static_cast<std::size_t>(count));
      packed += count;
    } else {
      std::memset(to, 0, static_cast<std::size_t>(count));
    }
  }
}

}  // namespace troupe::comm
