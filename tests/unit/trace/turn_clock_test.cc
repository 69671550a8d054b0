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
    turns.begin_turn();
    quick = ticks.in_ticks(TurnClock::kQuick_ns);
    turns.begin(ticks, {});
    turns.end(ticks);
    turns.begin_turn();
  }
  // The time that passes is seen in the counter.
  std::uint64_t later_by(std::uint64_t by) const {
    const std::uint64_t begin = ticks.now();
    while (ticks.now() - begin < by) {
    }
    return ticks.now();
  }
  static TurnClock::Sent read_at(std::uint64_t at) { return {.at = at}; }
  std::uint64_t begin_of_a_quick_kind(const TurnClock::Sent& sent) {
    const std::uint64_t begun = turns.begin_untimed(ticks, sent);
    return begun != 0 ? begun : turns.begin(ticks, sent);
  }
  void begin_and_end() {
    turns.begin(ticks, {});
    turns.end(ticks);
  }
  // A handler of an actor on this thread whose end is read. Gives its end.
  std::uint64_t another_one() {
    TurnClock other;
    other.start(ticks);
    other.begin_turn();
    const std::uint64_t begun = other.begin(ticks, {});
    return begun + other.end(ticks);
  }
  // Of an actor on this thread. What it sends.
  TurnClock::Sent sent_by_an_untimed_one() {
    TurnClock other;
    other.start(ticks);
    other.begin_turn();
    do {
      other.begin(ticks, {});
      other.end(ticks);
    } while (other.begin_untimed(ticks, {}) == 0);  // this thread was held up
    return other.guess();
  }

  const Ticks ticks;
  TurnClock turns;
  std::uint64_t quick = 0;
};

TEST_F(TurnClockTest, BeginsWhereTheOneBeforeOfTheTurnEnded) {
  std::uint64_t begun = turns.begin(ticks, {});
  for (int i = 0; i < 3; ++i) {
    later_by(3 * quick);
    const std::uint64_t ended = begun + turns.end(ticks);
    EXPECT_EQ(begun = turns.begin(ticks, {}), ended);
  }
  const std::uint64_t ended = begun + turns.end(ticks);
  EXPECT_EQ(turns.begin_untimed(ticks, {}), ended);
}

TEST_F(TurnClockTest, BeginsWhereItsSenderEnded) {
  const TurnClock::Sent sent = sent_by_an_untimed_one();
  const std::uint64_t ended = another_one();
  turns.begin_turn();
  EXPECT_EQ(turns.begin(ticks, sent), ended) << "what this thread has sent lies there";
}

// Whatever the times of the message and of the thread's last handler: the thread may have slept in between.
TEST_F(TurnClockTest, ReadsTheClockAtTheBeginOfATurn) {
  turns.begin(ticks, {});
  turns.end(ticks);
  const std::uint64_t sent_at = ticks.now();
  another_one();
  const std::uint64_t woken = later_by(100 * quick);
  turns.begin_turn();
  EXPECT_GE(turns.begin(ticks, read_at(sent_at)), woken);
  turns.end(ticks);
  const std::uint64_t again = later_by(100 * quick);
  turns.begin_turn();
  EXPECT_GE(begin_of_a_quick_kind(read_at(sent_at)), again);
}

// Its sender took long against its habit before it sent: the time says nothing of whether the message lay there.
TEST_F(TurnClockTest, DoesNotTrustAGuessOfAnotherThread) {
  TurnClock::Sent guess;
  std::thread([&] { guess = sent_by_an_untimed_one(); }).join();
  another_one();
  const std::uint64_t woken = later_by(100 * quick);
  turns.begin_turn();
  EXPECT_GE(begin_of_a_quick_kind(guess), woken);
}

// The actor has handled something on another thread since this one's last time.
TEST_F(TurnClockTest, DoesNotBeginBeforeItsOwnLast) {
  TurnClock::Sent sent = sent_by_an_untimed_one();
  another_one();
  std::uint64_t ended = 0, begun = 0;
  std::thread([&] {
    turns.begin_turn();
    begun = turns.begin(ticks, {});
    later_by(10 * quick);
    ended = begun + turns.end(ticks);
  }).join();
  turns.begin_turn();
  EXPECT_GE(turns.begin(ticks, sent), ended);
  turns.end(ticks);
  sent = sent_by_an_untimed_one();
  another_one();
  std::thread([&] {
    turns.begin_turn();
    begun = begin_of_a_quick_kind({});
  }).join();
  turns.begin_turn();
  EXPECT_GE(begin_of_a_quick_kind(sent), begun);
}

// What this thread has sent lay there, and waited for the pause to end.
TEST_F(TurnClockTest, ReadsTheClockAfterAPauseOnAnotherThread) {
  std::thread([&] {
    turns.begin_turn();
    turns.doubt();  // and parks
  }).join();
  const TurnClock::Sent sent = sent_by_an_untimed_one();
  another_one();
  const std::uint64_t went_on = later_by(100 * quick);
  turns.begin_turn();
  EXPECT_GE(turns.begin(ticks, sent), went_on);
  turns.end(ticks);
  const TurnClock::Sent next = sent_by_an_untimed_one();
  const std::uint64_t ended = another_one();
  turns.begin_turn();
  EXPECT_EQ(turns.begin(ticks, next), ended) << "its doubt has ended";
}

TEST_F(TurnClockTest, ReadsTheClockInDoubt) {
  const TurnClock::Sent sent = sent_by_an_untimed_one();
  turns.begin(ticks, {});
  later_by(3 * quick);
  turns.end(ticks);
  turns.doubt();  // paused, say
  const std::uint64_t went_on = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, sent), went_on);
  turns.end(ticks);
  TurnClock other;
  other.start(ticks);
  other.doubt();
  const std::uint64_t later = later_by(100 * quick);
  EXPECT_GE(turns.begin(ticks, sent), later) << "the doubt is this thread's, too";
}

TEST_F(TurnClockTest, TimesSomeOfTheQuick) {
  int timed = 0, of_a_period = 0;
  constexpr int kAll = 800'000;
  for (std::uint64_t handled = 1; handled <= kAll; ++timed) {
    const std::uint32_t untimed = turns.untimed_after(handled, handled * (quick / 4), 100);
    EXPECT_TRUE(untimed == 0 || handled >= TurnClock::kTimedFirst) << handled;
    of_a_period += handled % 8 == 1;
    handled += untimed + 1;
  }
  constexpr int kExpected = kAll / static_cast<int>(TurnClock::kTimedApart);
  EXPECT_NEAR(timed, kExpected, kExpected / 10);
  EXPECT_NEAR(of_a_period, kExpected / 8, kExpected / 30) << "no period of the messages goes along with it";
}

TEST_F(TurnClockTest, TimesWhoHasRested) {
  const std::uint64_t rested = ticks.in_ticks(TurnClock::kRested_ns);
  TurnClock fresh;
  fresh.start(ticks);
  fresh.begin_turn();
  EXPECT_EQ(fresh.begin_untimed(ticks, {}), 0u) << "it is its first";
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t later = later_by(rested + quick);
    turns.begin_turn();
    EXPECT_EQ(turns.begin_untimed(ticks, {}), 0u);
    const std::uint64_t begun = turns.begin(ticks, {});
    EXPECT_GE(begun, later);
    turns.end(ticks);
    turns.begin_turn();
    const std::uint64_t soon = turns.begin_untimed(ticks, {});
    if (ticks.now() - begun < rested) {  // this thread was not held up
      EXPECT_NE(soon, 0u);
    }
  }
}

TEST_F(TurnClockTest, TimesWhoHasRestedAlsoWhereItsSenderIsNotTimed) {
  const std::uint64_t rested = ticks.in_ticks(TurnClock::kRested_ns);
  later_by(rested + quick);
  another_one();
  const TurnClock::Sent sent = sent_by_an_untimed_one();
  turns.begin_turn();
  EXPECT_EQ(turns.begin_untimed(ticks, sent), 0u);
}

TEST_F(TurnClockTest, TimesEachOfTheOthers) {
  for (std::uint64_t handled = 1000; handled < 2000; ++handled) {
    EXPECT_EQ(turns.untimed_after(handled, handled * quick, 10), 0u) << "they are not quick on average";
    EXPECT_EQ(turns.untimed_after(handled, handled * (quick / 4), 2 * quick), 0u) << "the last one was not quick";
  }
}

TEST_F(TurnClockTest, WhatATimedOneTookDoesNotHoldWhatTheUntimedBeforeItTook) {
  while (turns.begin_untimed(ticks, {}) == 0) begin_and_end();
  const std::uint64_t later = later_by(100 * quick);
  const std::uint64_t begun = turns.begin(ticks, {});
  EXPECT_GE(begun, later);
  EXPECT_LE(turns.end(ticks), ticks.now() - later);
}

// Of any number of kinds, which are never the ones that are timed.
TEST_F(TurnClockTest, ReadsTheClockAfterManyUntimed) {
  std::uint64_t last = 0;
  std::uint32_t same = 0, most = 0;
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t begun = turns.begin_untimed(ticks, {});
    if (begun == 0) begin_and_end();
    same = begun == last ? same + 1 : 1;
    most = std::max(most, same);
    last = begun;
  }
  EXPECT_EQ(most, TurnClock::kGuessedMost);
}

TEST_F(TurnClockTest, WhatAnUntimedOneSendsIsSentWhenItBegan) {
  std::uint64_t begun = 0;
  while ((begun = turns.begin_untimed(ticks, {})) == 0) begin_and_end();
  later_by(quick);
  EXPECT_EQ(turns.guess().at, begun);
  EXPECT_NE(turns.guess().guessed_on, nullptr);
}

TEST(TurnClockOfAClock, IsReadAlways) {
  VirtualClock clock;
  const Ticks ticks(&clock);
  TurnClock turns;
  turns.start(ticks);
  turns.begin_turn();
  for (std::uint64_t handled = 0; handled < 1000; ++handled) {
    const std::uint64_t begun = turns.begin(ticks, {.at = 0});
    EXPECT_EQ(begun, ticks.now());
    clock.advance(7);
    EXPECT_EQ(turns.end(ticks), 7u);
    EXPECT_EQ(turns.untimed_after(handled, 0, 0), 0u);
    clock.advance(1);
  }
}

}  // namespace
}  // namespace troupe::trace
