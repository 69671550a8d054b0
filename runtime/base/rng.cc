#include "runtime/base/rng.h"

#include <cmath>
#include <numbers>

namespace troupe {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(const RandomKey& key) {
  // Two Philox blocks fold the 256 bits of the key into 64 bits of key and 64 bits of counter.
  const auto a = philox({low(static_cast<std::uint64_t>(key.step)), high(static_cast<std::uint64_t>(key.step)),
                         low(static_cast<std::uint64_t>(key.sample)), high(static_cast<std::uint64_t>(key.sample))},
                        {low(key.seed), high(key.seed)});
  const auto b = philox({a[0], a[1], static_cast<std::uint32_t>(key.layer), static_cast<std::uint32_t>(key.use)},
                        {a[2], a[3]});
  key_ = {b[0], b[1]};
  high_ = {b[2], b[3]};
}

std::uint32_t RandomStream::at(std::uint64_t index) const {
  const std::uint64_t block = index / 4;
  return philox({low(block), high(block), high_[0], high_[1]}, key_)[index % 4];
}

double RandomStream::uniform(std::uint64_t index) const { return at(index) * 0x1p-32; }

double RandomStream::normal(std::uint64_t index) const {
  const double u = (at(2 * index) + 0.5) * 0x1p-32;  // never 0
  const double v = at(2 * index + 1) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace troupe
