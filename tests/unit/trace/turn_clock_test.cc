#include "runtime/trace/turn_clock.h"

#include <gtest/gtest.h>

#include "runtime/base/clock.h"

namespace troupe::trace {
namespace {

class TurnClockTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_constant_counter()) GTEST_SKIP() << "skipped because this processor's counter is not the probes' clock";
    turns.start(ticks);
    quick = ticks.in_ticks(TurnClock::kQuick_ns);
  }
  // The time that passes is seen in the counter.
  std::uint64_t later_by(std::uint64_t by) const {
    const std::uint64_t begin = ticks.now();
    while (ticks.now() - begin < by) {
    }
    return ticks.now();
  }
  TurnClock::Habit quick_habit(std::uint64_t handled, std::uint64_t last = 100) const { return {.handled = handled, .ticks = handled * (quick / 4), .last = last}; }

  const Ticks ticks;
  TurnClock turns;
  std::uint64_t quick = 0;
};

TEST_F(TurnClockTest, BeginsWhereTheOneBeforeEnded) {
  const std::uint64_t sent_at = ticks.now();
  const std::uint64_t begun = turns.begin(ticks, sent_at, {});
  later_by(3 * quick);
  const std::uint64_t ended = begun + turns.end(ticks);
  TurnClock other;  // of another actor on this thread
  other.start(ticks);
  other.begin(ticks, TurnClock::kNotKnown, {});
  other.end(ticks);
  const std::uint64_t lay_since = ticks.now() - 2 * quick;
  const std::uint64_t first = other.begin(ticks, sent_at, {});
  EXPECT_GE(first, ended);
  later_by(3 * quick);
  const std::uint64_t first_ended = first + other.end(ticks);
  EXPECT_EQ(turns.begin(ticks, lay_since, {}), first_ended);
}

TEST_F(TurnClockTest, ReadsTheClockAfterIdleness) {
  turns.begin(ticks, ticks.now(), {});
  turns.end(ticks);
  const std::uint64_t sent_at = later_by(100 * quick);
  const std::uint64_t woken = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, sent_at, quick_habit(65)), woken);
}

TEST_F(TurnClockTest, ReadsTheClockInDoubt) {
  const std::uint64_t sent_at = ticks.now();
  turns.begin(ticks, sent_at, {});
  turns.end(ticks);
  turns.doubt();  // paused, say
  const std::uint64_t went_on = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, sent_at, {}), went_on);
}

TEST_F(TurnClockTest, TimesOneInEightOfTheQuick) {
  for (std::uint64_t handled = 0; handled < 3 * TurnClock::kTimedFirst; ++handled) {
    turns.begin(ticks, ticks.now(), quick_habit(handled));
    EXPECT_EQ(turns.is_timed(), handled < TurnClock::kTimedFirst || handled % TurnClock::kTimedApart == 0) << handled;
    turns.end(ticks);
  }
}

TEST_F(TurnClockTest, TimesEachOfTheOthers) {
  const TurnClock::Habit slow{.handled = 1001, .ticks = 1001 * quick, .last = 10};
  const std::uint64_t begun = turns.begin(ticks, ticks.now(), slow);
  const std::uint64_t ended = later_by(2 * quick);
  EXPECT_GE(begun + turns.end(ticks), ended);
}

TEST_F(TurnClockTest, TakesTheQuickForAsLongAsTheLastTimedOneAndNeverForLong) {
  turns.begin(ticks, ticks.now(), quick_habit(65, 77));
  EXPECT_EQ(turns.end(ticks), 77u);
  turns.begin(ticks, ticks.now(), quick_habit(65, 1000 * quick));
  EXPECT_EQ(turns.end(ticks), quick);
}

TEST_F(TurnClockTest, WhatATimedOneTookDoesNotHoldWhatTheUntimedBeforeItTook) {
  const std::uint64_t sent_at = ticks.now();
  turns.begin(ticks, sent_at, quick_habit(65));
  const std::uint64_t later = later_by(100 * quick);
  turns.end(ticks);
  EXPECT_GE(turns.begin(ticks, sent_at, quick_habit(72)), later);
  EXPECT_LT(turns.end(ticks), 100 * quick);
}

TEST_F(TurnClockTest, WhatAQuickHandlerSendsIsSentWhenItBegan) {
  const std::uint64_t begun = turns.begin(ticks, ticks.now(), quick_habit(65));
  later_by(quick);
  EXPECT_EQ(turns.now(ticks), begun);
  turns.end(ticks);
  EXPECT_GT(turns.now(ticks), begun + quick);
  const std::uint64_t slow_begun = turns.begin(ticks, ticks.now(), {});
  later_by(quick);
  EXPECT_GE(turns.now(ticks), slow_begun + quick);
}

TEST(TurnClockOfAClock, IsReadAlways) {
  VirtualClock clock;
  const Ticks ticks(&clock);
  TurnClock turns;
  turns.start(ticks);
  for (std::uint64_t handled = 0; handled < 100; ++handled) {
    const std::uint64_t begun = turns.begin(ticks, 0, {.handled = handled, .ticks = 0, .last = 0});
    EXPECT_EQ(begun, ticks.now());
    clock.advance(7);
    EXPECT_EQ(turns.now(ticks), begun + 7);
    EXPECT_EQ(turns.end(ticks), 7u);
  }
}

}  // namespace
}  // namespace troupe::trace
