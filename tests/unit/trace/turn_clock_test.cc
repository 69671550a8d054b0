#include "runtime/trace/turn_clock.h"

#include <gtest/gtest.h>

#include <thread>

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
  // Of a quick kind, the first from `from` on that is timed, or is not.
  static std::uint64_t chosen(bool is_chosen, std::uint64_t from = 2 * TurnClock::kTimedFirst) {
    while (TurnClock::is_chosen(from) != is_chosen) ++from;
    return from;
  }
  static TurnClock::Sent read_at(std::uint64_t at) { return {.at = at}; }
  // Of an actor on this thread, which so has ended at a time that was read.
  std::uint64_t another_one() {
    TurnClock other;
    other.start(ticks);
    const std::uint64_t begun = other.begin(ticks, {}, {});
    return begun + other.end(ticks);
  }

  const Ticks ticks;
  TurnClock turns;
  std::uint64_t quick = 0;
};

TEST_F(TurnClockTest, BeginsWhereTheOneBeforeEnded) {
  turns.begin(ticks, {}, {});
  turns.end(ticks);  // a new one has doubts
  const std::uint64_t lay_since = ticks.now();
  later_by(3 * quick);
  const std::uint64_t ended = another_one();
  const std::uint64_t begun = turns.begin(ticks, read_at(lay_since), {});
  EXPECT_EQ(begun, ended);
  later_by(3 * quick);
  const std::uint64_t its_end = begun + turns.end(ticks);
  EXPECT_EQ(turns.begin(ticks, read_at(lay_since), {}), its_end);
}

TEST_F(TurnClockTest, ReadsTheClockAfterIdleness) {
  turns.begin(ticks, {}, {});
  turns.end(ticks);
  const std::uint64_t sent_at = later_by(100 * quick);
  const std::uint64_t woken = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, read_at(sent_at), quick_habit(chosen(false))), woken);
}

// Its sender took long against its habit before it sent: the time says nothing of whether the message lay there.
TEST_F(TurnClockTest, DoesNotTrustAGuessOfAnotherThread) {
  TurnClock::Sent guess, own;
  std::thread([&] {
    TurnClock sender;
    sender.start(ticks);
    sender.begin(ticks, {}, quick_habit(chosen(false)));
    guess = sender.now(ticks);
  }).join();
  later_by(10 * quick);
  turns.begin(ticks, {}, {});
  turns.end(ticks);
  const std::uint64_t woken = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, guess, quick_habit(chosen(false))), woken);
  own = turns.now(ticks);
  turns.end(ticks);
  const std::uint64_t own_end = another_one();
  EXPECT_EQ(turns.begin(ticks, own, {}), own_end) << "what this thread has sent lies there";
}

TEST_F(TurnClockTest, ReadsTheClockInDoubt) {
  const std::uint64_t sent_at = ticks.now();
  turns.begin(ticks, {}, {});
  later_by(3 * quick);
  turns.end(ticks);
  turns.doubt();  // paused, say
  const std::uint64_t went_on = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, read_at(sent_at), {}), went_on);
  turns.end(ticks);
  TurnClock other;
  other.start(ticks);
  other.doubt();
  const std::uint64_t later = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, read_at(sent_at), {}), later) << "the doubt is this thread's, too";
}

TEST_F(TurnClockTest, TimesSomeOfTheQuick) {
  int timed = 0, of_a_period = 0;
  for (std::uint64_t handled = 0; handled < 80'000; ++handled) {
    turns.begin(ticks, {}, quick_habit(handled));
    turns.end(ticks);
    EXPECT_TRUE(turns.is_timed() || handled >= TurnClock::kTimedFirst) << handled;
    timed += turns.is_timed();
    of_a_period += turns.is_timed() && handled % 8 == 1;
  }
  constexpr int kExpected = 80'000 / static_cast<int>(TurnClock::kTimedApart);
  EXPECT_NEAR(timed, kExpected, kExpected / 10);
  EXPECT_NEAR(of_a_period, kExpected / 8, kExpected / 30);
}

TEST_F(TurnClockTest, TimesEachOfTheOthers) {
  for (const TurnClock::Habit& slow : {TurnClock::Habit{.handled = 1000, .ticks = 1000 * quick, .last = 10}, quick_habit(1'000'000, 2 * quick)}) {
    for (const bool is_chosen : {true, false}) {
      auto habit = slow;
      habit.handled = chosen(is_chosen, slow.handled);
      habit.ticks += (habit.handled - slow.handled) * quick;
      const std::uint64_t begun = turns.begin(ticks, {}, habit);
      const std::uint64_t ended = later_by(2 * quick);
      EXPECT_GE(begun + turns.end(ticks), ended) << "it, or the last of its kind, was not quick";
    }
  }
}

TEST_F(TurnClockTest, TakesTheQuickForAsLongAsTheLastTimedOne) {
  turns.begin(ticks, {}, quick_habit(chosen(false), 77));
  EXPECT_EQ(turns.end(ticks), 77u);
}

TEST_F(TurnClockTest, WhatATimedOneTookDoesNotHoldWhatTheUntimedBeforeItTook) {
  turns.begin(ticks, {}, quick_habit(chosen(false)));
  const TurnClock::Sent sent = turns.now(ticks);
  const std::uint64_t later = later_by(100 * quick);
  turns.end(ticks);
  EXPECT_GE(turns.begin(ticks, sent, quick_habit(chosen(true))), later);
  EXPECT_LT(turns.end(ticks), 100 * quick);
}

// Of any number of kinds, which are never the ones that are timed.
TEST_F(TurnClockTest, ReadsTheClockAfterManyUntimed) {
  turns.begin(ticks, {}, {});
  const TurnClock::Sent sent = {.at = ticks.now() - 100 * quick};
  turns.end(ticks);
  std::uint64_t last = 0;
  int same = 0;
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t begun = turns.begin(ticks, sent, quick_habit(chosen(false)));
    same = begun == last ? same + 1 : 0;
    EXPECT_LT(same, static_cast<int>(TurnClock::kUntimedMost)) << i;
    last = begun;
    turns.end(ticks);
  }
}

TEST_F(TurnClockTest, WhatAQuickHandlerSendsIsSentWhenItBegan) {
  const std::uint64_t begun = turns.begin(ticks, {}, quick_habit(chosen(false)));
  later_by(quick);
  EXPECT_EQ(turns.now(ticks).at, begun);
  EXPECT_NE(turns.now(ticks).guessed_on, nullptr);
  turns.end(ticks);
  EXPECT_GT(turns.now(ticks).at, begun + quick);
  const std::uint64_t slow_begun = turns.begin(ticks, {}, {});
  later_by(quick);
  EXPECT_GE(turns.now(ticks).at, slow_begun + quick);
  EXPECT_EQ(turns.now(ticks).guessed_on, nullptr);
}

TEST(TurnClockOfAClock, IsReadAlways) {
  VirtualClock clock;
  const Ticks ticks(&clock);
  TurnClock turns;
  turns.start(ticks);
  for (std::uint64_t handled = 0; handled < 100; ++handled) {
    const std::uint64_t begun = turns.begin(ticks, {.at = 0}, {.handled = handled, .ticks = 0, .last = 0});
    EXPECT_EQ(begun, ticks.now());
    clock.advance(7);
    EXPECT_EQ(turns.now(ticks).at, begun + 7);
    EXPECT_EQ(turns.end(ticks), 7u);
  }
}

}  // namespace
}  // namespace troupe::trace
