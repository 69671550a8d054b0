#include "runtime/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace troupe {
namespace {

// Known answers of the authors' Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DependsOnEveryPartOfItsKey) {
  const RandomKey base{.seed = 1, .step = 2, .sample = 3, .layer = 4, .use = 5};
  auto first = [](const RandomKey& key) { return RandomStream(key).at(0); };
  for (auto change : {0, 1, 2, 3, 4}) {
    RandomKey other = base;
    if (change == 0) ++other.seed;
    if (change == 1) ++other.step;
    if (change == 2) ++other.sample;
    if (change == 3) ++other.layer;
    if (change == 4) ++other.use;
    EXPECT_NE(first(base), first(other)) << change;
  }
  EXPECT_EQ(first(base), first(base));
}

TEST(RandomStream, NormalHasMeanZeroAndVarianceOne) {
  const RandomStream stream({.seed = 7});
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.015);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
}

}  // namespace
}  // namespace troupe
