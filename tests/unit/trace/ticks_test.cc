#include "runtime/trace/ticks.h"

#include <gtest/gtest.h>

#include <utility>

namespace troupe::trace {
namespace {

// The tick nearest to a reading of the steady clock, of some tries: the thread may lose the processor in
// between.
std::pair<std::int64_t, std::int64_t> steady_and_ticks_ns(const SteadyClock& steady, const Ticks& ticks) {
  std::pair<std::int64_t, std::int64_t> best;
  std::int64_t best_gap = 1'000'000'000;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t before = steady.now_ns(), now = ticks.now_ns(), gap = steady.now_ns() - before;
    if (gap < best_gap) {
      best_gap = gap;
      best = {before, now};
    }
  }
  return best;
}

TEST(Ticks, AgreesWithTheSteadyClock) {
  const SteadyClock steady;
  const Ticks ticks;
  const auto begin = steady_and_ticks_ns(steady, ticks);
  while (steady.now_ns() - begin.first < 50'000'000) {
  }
  const auto end = steady_and_ticks_ns(steady, ticks);
  EXPECT_NEAR(static_cast<double>(end.second - begin.second) / static_cast<double>(end.first - begin.first),
              1.0, 0.01);
}

TEST(Ticks, FollowsTheVirtualClockExactly) {
  VirtualClock clock;
  const Ticks ticks(&clock);
  const std::uint64_t then = ticks.now();
  clock.advance(12345);
  EXPECT_EQ(ticks.age_ns(then), 12345);
  EXPECT_EQ(ticks.now_ns(), 12345);
}

TEST(Ticks, KnowsAnAgeFromTheLowerBits) {
  VirtualClock clock;
  const Ticks ticks(&clock);
  clock.advance(std::int64_t{5} << Ticks::kBits);
  clock.advance(-7);
  const std::uint64_t then = ticks.now() & Ticks::kMask;
  clock.advance(20);  // over the edge of the kept bits
  EXPECT_EQ(ticks.age_ns(then), 20);
}

TEST(Ticks, NeverGivesANegativeAge) {
  VirtualClock clock;
  const Ticks ticks(&clock);
  clock.advance(100);
  EXPECT_EQ(ticks.age_ns(101), 0);
}

}  // namespace
}  // namespace troupe::trace
