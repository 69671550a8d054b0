#include "models/data/shuffle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace troupe::data {
namespace {

std::vector<std::int64_t> order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const Shuffle shuffle(size, seed, epoch);
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < size; ++i) elements.push_back(shuffle(i));
  return elements;
}

TEST(Shuffle, IsABijection) {
  std::vector<std::int64_t> sizes{127, 128, 129, 1000, 1023, 1024, 1025, 4097, 65536, 65537, 99991};
  for (std::int64_t size = 1; size <= 70; ++size) sizes.push_back(size);
  for (const auto size : sizes) {
    const auto elements = order(size, 42, size % 5);
    const std::set<std::int64_t> distinct(elements.begin(), elements.end());
    ASSERT_EQ(static_cast<std::int64_t>(distinct.size()), size);
    ASSERT_EQ(*distinct.begin(), 0);
    ASSERT_EQ(*distinct.rbegin(), size - 1);
  }
}

TEST(Shuffle, StaysWithinTheLargestSizes) {
  for (const std::int64_t size :
       {Shuffle::kMaxSize, Shuffle::kMaxSize - 1, (std::int64_t{1} << 61) + 1, (std::int64_t{1} << 32) + 1}) {
    const Shuffle shuffle(size, 3, 0);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 2000; ++i) {
      for (const std::int64_t position : {i, size - 1 - i}) {
        const auto element = shuffle(position);
        ASSERT_GE(element, 0);
        ASSERT_LT(element, size);
        ASSERT_TRUE(seen.insert(element).second);
      }
    }
  }
}

// CASES T08: the order is that of its epoch, and of nothing else.
TEST(Shuffle, DependsOnSeedAndEpoch) {
  const auto first = order(1000, 7, 0);
  EXPECT_EQ(order(1000, 7, 0), first);
  EXPECT_NE(order(1000, 7, 1), first);
  EXPECT_NE(order(1000, 8, 0), first);
  EXPECT_NE(order(1000, 7 + (std::uint64_t{1} << 32), 0), first);
  EXPECT_NE(order(1000, 7, std::int64_t{1} << 32), first);
  // Two orders agree at one place of 1000 on average, as two random ones do.
  const auto second = order(1000, 7, 1);
  int same = 0;
  for (std::size_t i = 0; i < first.size(); ++i) same += first[i] == second[i];
  EXPECT_LE(same, 7);
}

// Chi-square of (position, element) counts over many epochs, against the uniform n x n table.
TEST(Shuffle, IsUniform) {
  constexpr int kEpochs = 20000;
  for (const std::int64_t size : {2, 3, 4, 5, 7, 8, 11, 16, 17}) {
    const auto n = static_cast<std::size_t>(size);
    std::vector<double> counts(n * n);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Shuffle shuffle(size, 99, epoch);
      for (std::size_t i = 0; i < n; ++i)
        ++counts[i * n + static_cast<std::size_t>(shuffle(static_cast<std::int64_t>(i)))];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    double chi_square = 0;
    for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
    // Rows and columns sum to kEpochs: (n-1)^2 degrees of freedom; mean + 5 standard deviations.
    const double freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom) + 5) << "size " << size;
  }
}

// Neighbours do not stay neighbours: the step from one element to the next is spread over the whole range.
TEST(Shuffle, SpreadsNeighbours) {
  constexpr std::int64_t kSize = 1 << 16;
  const auto elements = order(kSize, 1, 0);
  std::vector<double> counts(16);
  for (std::size_t i = 1; i < elements.size(); ++i) {
    const std::int64_t step = (elements[i] - elements[i - 1] + kSize) % kSize;
    ++counts[static_cast<std::size_t>(step * 16 / kSize)];
  }
  for (const double count : counts) EXPECT_NEAR(count, kSize / 16, 6 * 64);  // 6 standard deviations
}

TEST(Shuffle, GivesTheReferenceValues) {
  struct Case {
    std::int64_t size;
    std::uint64_t seed;
    std::int64_t epoch;
    std::vector<std::pair<std::int64_t, std::int64_t>> elements;
  };
  // From shuffle_reference.py.
  const std::vector<Case> cases{
      {1, 0u, 0, {{0, 0}}},
      {2, 7u, 0, {{0, 0}, {1, 1}}},
      {10, 7u, 0, {{0, 4}, {3, 7}, {9, 6}}},
      {10, 7u, 1, {{0, 2}, {3, 7}, {9, 3}}},
      {1000, 1099511627776u, 3, {{0, 640}, {333, 131}, {999, 381}}},
      {1000000000039,
       5u,
       2,
       {{0, 458829227251}, {333333333346, 639221670051}, {1000000000038, 730028290730}}},
      {4611686018427387904,
       18446744073709551615u,
       9,
       {{0, 1966722406796159667},
        {1537228672809129301, 2500422013469919562},
        {4611686018427387903, 1811143106711372414}}},
  };
  for (const auto& c : cases) {
    for (const auto& [position, element] : c.elements) {
      EXPECT_EQ(Shuffle(c.size, c.seed, c.epoch)(position), element) << c.size << " at " << position;
    }
  }
}

TEST(ShuffleDeathTest, RefusesPositionsOutside) {
  EXPECT_DEATH(Shuffle(10, 0, 0)(10), "position 10 of 10");
  EXPECT_DEATH(Shuffle(0, 0, 0), "size 0");
}

}  // namespace
}  // namespace troupe::data
