// A random order of [0, size) that is computed, not stored: position -> element in O(1) time and memory.
//
// An alternating Feistel network over the smallest power of two >= size, its round function Philox keyed by
// (seed, epoch); a value that falls outside [0, size) goes through again until it falls inside (cycle
// walking: Black & Rogaway 2002, "Ciphers with arbitrary finite domains"). Below two passes on average, as
// the power of two is below 2 * size.
//
// Threads: any. Limits: 1 <= size <= 2^62.
// Invariants: a bijection (Shuffle.IsABijection); depends on seed and epoch only, CASES T08
// (Shuffle.DependsOnSeedAndEpoch);
//   the same on every machine (Shuffle.GivesTheReferenceValues, from tests/unit/data/shuffle_reference.py).
#pragma once

#include <array>
#include <cstdint>

namespace troupe::data {

class Shuffle {
 public:
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << 62;

  Shuffle(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

  // 0 <= position < size.
  std::int64_t operator()(std::int64_t position) const;

 private:
  // By chi-square over 100,000 epochs, sizes from 31 on are uniform with 6 half rounds, 9 to 17 with 10, and
  // 5 to 7, whose halves are of 1 and 2 bits, with 16.
  static constexpr std::uint32_t kHalfRounds = 16;

  std::uint32_t round(std::uint32_t half, std::uint32_t index) const;

  std::int64_t size_;
  int low_bits_, high_bits_;
  std::array<std::uint32_t, 2> key_, counter_;
};

}  // namespace troupe::data
