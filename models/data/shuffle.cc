#include "models/data/shuffle.h"

#include <bit>

#include "runtime/base/check.h"
#include "runtime/base/rng.h"

namespace troupe::data {
namespace {

// Sets the draws of the data order apart from the model's (dropout, initialization), which have layers from 0
// on.
constexpr std::int32_t kLayerOfDataOrder = -1;

std::uint64_t low_mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

Shuffle::Shuffle(std::int64_t size, std::uint64_t seed, std::int64_t epoch) : size_(size) {
  TROUPE_CHECK(size >= 1 && size <= kMaxSize) << "size " << size;
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1)));
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;  // at most 31
  const RandomStream stream({.seed = seed, .sample = epoch, .layer = kLayerOfDataOrder});
  key_ = stream.key();
  counter_ = stream.counter_high();
}

std::uint32_t Shuffle::round(std::uint32_t half, std::uint32_t index) const {
  return philox({half, index, counter_[0], counter_[1]}, key_)[0];
}

std::int64_t Shuffle::operator()(std::int64_t position) const {
  TROUPE_CHECK(position >= 0 && position < size_) << "position " << position << " of " << size_;
  const auto low_part = static_cast<std::uint32_t>(low_mask(low_bits_));
  const auto high_part = static_cast<std::uint32_t>(low_mask(high_bits_));
  auto value = static_cast<std::uint64_t>(position);
  do {
    auto low = static_cast<std::uint32_t>(value & low_part);
    auto high = static_cast<std::uint32_t>(value >> low_bits_);
    for (std::uint32_t index = 0; index < kHalfRounds; index += 2) {
      high ^= round(low, index) & high_part;
      low ^= round(high, index + 1) & low_part;
    }
    value = std::uint64_t{high} << low_bits_ | low;
  } while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

}  // namespace troupe::data
