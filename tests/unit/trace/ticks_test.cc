#include "runtime/trace/ticks.h"

#include <gtest/gtest.h>

namespace troupe::trace {
namespace {

TEST(Ticks, AgreesWithTheSteadyClock) {
  const SteadyClock steady;
  const Ticks ticks;
  const std::int64_t steady_begin = steady.now_ns(), ticks_begin = ticks.now_ns();
  while (steady.now_ns() - steady_begin < 50'000'000) {
  }
  const std::int64_t ticks_ns = ticks.now_ns() - ticks_begin, steady_ns = steady.now_ns() - steady_begin;
  EXPECT_NEAR(static_cast<double>(ticks_ns) / static_cast<double>(steady_ns), 1.0, 0.02);
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
