#include "actors/train/spike_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace troupe::actors {
namespace {

using testing::HasSubstr;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

SpikeGuard warm(const plan::SpikeSection& settings) {  // its average is 2
  SpikeGuard guard(settings, 0, 0, 0);
  for (int i = 0; i < SpikeGuard::kWarmup; ++i) EXPECT_EQ(guard.judge(2, 1), "");
  return guard;
}

TEST(SpikeGuard, SkipsWhatIsNotFiniteEvenWhenSwitchedOff) {
  SpikeGuard guard({.factor = 0}, 0, 0, 0);
  EXPECT_EQ(guard.judge(kNan, 1), "loss is nan");
  EXPECT_EQ(guard.judge(kInfinity, 1), "loss is inf");
  EXPECT_EQ(guard.judge(1, kInfinity), "gradient norm is inf");
  EXPECT_EQ(guard.judge(1, kNan), "gradient norm is nan");
  EXPECT_EQ(guard.averaged(), 0);
  EXPECT_EQ(guard.judge(1e30, 1), "");
}

// CASES T57.
TEST(SpikeGuard, SkipsALossFarAboveItsAverage) {
  auto guard = warm({.factor = 3});
  EXPECT_DOUBLE_EQ(guard.average(), 2);
  EXPECT_THAT(guard.judge(6.1, 1), HasSubstr("loss 6.1 is more than 3 times its average 2"));
  EXPECT_DOUBLE_EQ(guard.average(), 2);  // a spike does not enter it
  EXPECT_EQ(guard.judge(6, 1), "");      // not more than three times
}

TEST(SpikeGuard, HasNoOpinionBeforeItHasSeenEnough) {
  SpikeGuard guard({.factor = 3}, 0, 0, 0);
  for (int i = 0; i < SpikeGuard::kWarmup; ++i) EXPECT_EQ(guard.judge(i == 10 ? 100 : 1, 1), "");
  EXPECT_NE(guard.judge(1000, 1), "");
}

TEST(SpikeGuard, AveragesPlainlyAtFirstAndThenForgets) {
  SpikeGuard guard({.ema = 0.5}, 0, 0, 0);
  (void)guard.judge(1, 1);
  EXPECT_DOUBLE_EQ(guard.average(), 1);
  (void)guard.judge(3, 1);
  EXPECT_DOUBLE_EQ(guard.average(), 2);    // (1 + 3) / 2
  (void)guard.judge(8, 1);
  EXPECT_DOUBLE_EQ(guard.average(), 5);    // 0.5 * 2 + 0.5 * 8
}

TEST(SpikeGuard, DecidesTheSameAfterAResume) {
  auto whole = warm({.factor = 3});
  SpikeGuard resumed({.factor = 3}, whole.average(), whole.averaged(), whole.skipped_in_a_row());
  for (double loss : {2.5, 7.0, 6.2, 5.9, 8.0}) EXPECT_EQ(whole.judge(loss, 1), resumed.judge(loss, 1)) << loss;
  EXPECT_EQ(whole.average(), resumed.average());
}

TEST(SpikeGuard, GivesUpAfterTooManyInARow) {
  SpikeGuard guard({.max_skipped = 2}, 0, 0, 0);
  for (int i = 0; i < 2; ++i) (void)guard.judge(kNan, 1);
  EXPECT_FALSE(guard.gives_up());
  (void)guard.judge(1, 1);  // a good one in between
  for (int i = 0; i < 2; ++i) (void)guard.judge(kNan, 1);
  EXPECT_FALSE(guard.gives_up());
  (void)guard.judge(kNan, 1);
  EXPECT_TRUE(guard.gives_up());
  EXPECT_EQ(guard.skipped_in_a_row(), 3);
}

// CASES T22's kind: a run that is resumed again and again would never give up.
TEST(SpikeGuard, CountsOnAfterAResume) {
  SpikeGuard resumed({.max_skipped = 2}, 0, 0, 2);
  EXPECT_FALSE(resumed.gives_up());
  (void)resumed.judge(kNan, 1);
  EXPECT_TRUE(resumed.gives_up());
}

}  // namespace
}  // namespace troupe::actors
