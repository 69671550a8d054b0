#include "runtime/trace/pause.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/trace/probe.h"

namespace troupe::trace {
namespace {

TEST(PauseTest, HoldsBackFromThePauseToTheGoOn) {
  Pause pause;
  EXPECT_FALSE(pause.holds_back());
  EXPECT_FALSE(pause.pause(7).was_paused);
  EXPECT_TRUE(pause.holds_back());
  EXPECT_EQ(pause.seen().since, 7u);
  EXPECT_TRUE(pause.pause(9).was_paused);
  EXPECT_EQ(pause.seen().since, 7u) << "a second pause does not make it younger";
  EXPECT_TRUE(pause.go_on().was_paused);
  EXPECT_FALSE(pause.holds_back());
  EXPECT_FALSE(pause.seen().paused);
  EXPECT_FALSE(pause.go_on().was_paused);
}

TEST(PauseTest, AStepLetsOneMessagePass) {
  Pause pause;
  EXPECT_TRUE(pause.step().same) << "who is not paused takes no step";
  pause.pause(1);
  pause.step();
  pause.step();
  EXPECT_EQ(pause.seen().steps, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(pause.holds_back());
    EXPECT_FALSE(pause.park(0));
    pause.take();
  }
  EXPECT_TRUE(pause.holds_back());
  pause.take();  // the message of a turn that was under way
  EXPECT_TRUE(pause.holds_back());
  EXPECT_EQ(pause.seen().steps, 0);
}

TEST(PauseTest, StepsAreBounded) {
  Pause pause;
  pause.pause(~std::uint64_t{0} >> 1);
  const auto since = pause.seen().since;
  for (int i = 0; i < Pause::kStepsMost; ++i) EXPECT_FALSE(pause.step().same);
  EXPECT_TRUE(pause.step().same);
  EXPECT_EQ(pause.seen().steps, Pause::kStepsMost);
  EXPECT_EQ(pause.seen().since, since) << "the count runs into the time";
  EXPECT_TRUE(pause.seen().paused);
}

TEST(PauseTest, OnlyAParkedActorIsWoken) {
  Pause pause;
  EXPECT_FALSE(pause.park(0)) << "it is not paused";
  pause.pause(1);
  EXPECT_FALSE(pause.step().wakes) << "it runs, or waits for a message";
  pause.take();
  EXPECT_TRUE(pause.park(5));
  EXPECT_EQ(pause.seen().since, 5u);
  EXPECT_FALSE(pause.pause(6).wakes);
  EXPECT_TRUE(pause.step().wakes);
  EXPECT_FALSE(pause.go_on().wakes) << "woken twice";
}

TEST(PauseTest, NothingIsHeldAfterTheEnd) {
  Pause pause;
  pause.pause(1);
  EXPECT_TRUE(pause.park(0));
  EXPECT_TRUE(pause.end().wakes);
  EXPECT_FALSE(pause.holds_back());
  EXPECT_TRUE(pause.pause(2).had_ended);
  EXPECT_FALSE(pause.holds_back());
  EXPECT_FALSE(pause.park(0));
  EXPECT_FALSE(pause.end().wakes);
  EXPECT_TRUE(pause.go_on().had_ended);
  EXPECT_TRUE(pause.step().had_ended);
}

TEST(PauseTest, OneOfManyWakesTheParked) {
  for (int round = 0; round < 500; ++round) {
    Pause pause;
    pause.pause(1);
    ASSERT_TRUE(pause.park(0));
    std::atomic<int> woken{0}, ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        ++ready;
        while (ready < 3) std::this_thread::yield();
        const auto change = i == 0 ? pause.step() : i == 1 ? pause.go_on() : pause.end();
        if (change.wakes) ++woken;
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(woken, 1) << "in round " << round;
  }
}

TEST(PauseTest, IsPausedWhenItsTurnHasEnded) {
  Pause pause;
  pause.begin_turn();
  pause.pause(7);
  EXPECT_TRUE(pause.holds_back());
  EXPECT_FALSE(pause.seen().paused) << "it may just take a message";
  EXPECT_TRUE(pause.seen().is_to_pause);
  EXPECT_TRUE(pause.park(9));
  EXPECT_TRUE(pause.seen().paused);
  EXPECT_FALSE(pause.seen().is_to_pause);
  EXPECT_EQ(pause.seen().since, 9u);
  EXPECT_TRUE(pause.step().wakes);
  pause.begin_turn();
  EXPECT_FALSE(pause.seen().paused);
  EXPECT_FALSE(pause.seen().is_to_pause) << "it is to take a message first";
  pause.take();
  EXPECT_TRUE(pause.seen().is_to_pause);
  pause.end_turn();
  EXPECT_TRUE(pause.seen().paused);
  pause.begin_turn();
  EXPECT_TRUE(pause.go_on().was_paused);
  pause.pause(10);
  EXPECT_TRUE(pause.seen().is_to_pause) << "what it is told ends no turn";
  EXPECT_FALSE(pause.end().wakes);
  pause.end_turn();
  EXPECT_TRUE(pause.pause(11).had_ended);
}

// An actor that takes messages all the time, and one who pauses it again and again.
TEST(PauseTest, WhoIsSeenAsPausedTakesNothing) {
  Pause pause;
  std::atomic<bool> done{false}, takes{false};
  std::atomic<int> scheduled{1}, taken{0};
  std::thread actor([&] {
    while (!done) {
      if (scheduled.exchange(0) == 0) continue;
      for (;;) {
        pause.begin_turn();
        bool parked = false;
        for (int i = 0; i < 3 && !parked; ++i) {
          while (pause.holds_back() && !parked) parked = pause.park(1);
          if (!parked) {
            takes = true;
            ++taken;
            takes = false;
          }
        }
        if (parked || done) break;
        pause.end_turn();
      }
    }
  });
  int seen = 0;
  for (int round = 0; round < 20'000; ++round) {
    pause.pause(1);
    for (int look = 0; look < round % 50; ++look) {
      if (!pause.seen().paused) continue;
      const int before = taken;
      EXPECT_FALSE(takes) << "in round " << round;
      EXPECT_FALSE(takes) << "in round " << round;
      EXPECT_EQ(taken, before) << "in round " << round;
      ++seen;
    }
    if (pause.go_on().wakes) ++scheduled;
  }
  done = true;
  actor.join();
  EXPECT_GT(seen, 100);
}

TEST(PauseTest, TheProbeShowsItWhileNoHandlerRuns) {
  const Texts texts{.name = [](Name) { return "gradients"; }, .type = [](std::uint32_t) { return "Batch"; }};
  Probe probe("a", Ticks());
  const int slot = probe.add_type(0);
  probe.set_state(State::kWaitingForCredit, Name{1}, 4);
  probe.sent(0);
  probe.begin_handling(slot);
  probe.pause.pause(probe.ticks().now());
  EXPECT_EQ(probe.row(texts).state, State::kHandling);
  probe.end_handling();
  const ActorRow row = probe.row(texts);
  EXPECT_EQ(row.state, State::kPaused);
  EXPECT_EQ(row.detail, "");
  EXPECT_EQ(row.number, -1);
  EXPECT_STREQ(key(row.state), "paused");
  probe.pause.go_on();
  EXPECT_EQ(probe.row(texts).state, State::kWaitingForCredit) << "what it said before is still so";
  probe.pause.pause(probe.ticks().now());
  probe.ended();
  EXPECT_EQ(probe.row(texts).state, State::kEnded);
}

}  // namespace
}  // namespace troupe::trace
