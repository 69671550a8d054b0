// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
// A number depends on its key and counter alone, so every thread, rank and recomputation draws the same one.
#pragma once

#include <array>
#include <cstdint>

namespace troupe {

// What a random number is for. The same key draws the same numbers in any plan.
struct RandomKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t sample = 0;
  std::int32_t layer = 0;
  std::int32_t use = 0;  // which draw within the layer
};

// One Philox4x32-10 block: four words from a 128-bit counter and a 64-bit key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The stream of words that belongs to a RandomKey; word i is at(i). Cheap to copy.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key);

  std::uint32_t at(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // [0, 1)
  double normal(std::uint64_t index) const;   // Box-Muller over words 2 * index, 2 * index + 1
  // The Philox key; counter word 0 and 1 are (index / 4), words 2 and 3 stay `counter_high()`. For kernels in SIMD.
  std::array<std::uint32_t, 2> key() const { return key_; }
  std::array<std::uint32_t, 2> counter_high() const { return high_; }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> high_;
};

}  // namespace troupe
