#include "runtime/trace/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/base/sanitizer.h"

namespace troupe::trace {
namespace {

Texts texts() {
  return {[](Name name) { return name.id == 0 ? std::string() : "name" + std::to_string(name.id); },
          [](std::uint32_t type) { return "Type" + std::to_string(type); }};
}

struct ProbeTest : testing::Test {
  VirtualClock clock;
  Probe probe{"a", Ticks(&clock)};

  void handle(int slot, std::int64_t for_ns = 0) {
    probe.begin_handling(slot);
    clock.advance(for_ns);
    probe.end_handling();
  }
};

// Not since the machine was started.
TEST_F(ProbeTest, AnActorThatHasNotSaidAnythingIsIdleSinceItWasMade) {
  clock.advance(1'000'000);
  Probe late("b", Ticks(&clock));
  probe.set_ticks(Ticks(&clock));  // as a system does when it takes the actor
  clock.advance(70);
  EXPECT_EQ(late.row(texts()).since_ns, 70);
  EXPECT_EQ(probe.row(texts()).since_ns, 70);
}

TEST_F(ProbeTest, EveryMessageIsSomewhere) {
  const int slot = probe.add_type(3);
  for (int i = 0; i < 10; ++i) probe.sent(3);
  for (int i = 0; i < 4; ++i) handle(slot);
  probe.dead_letter(3, DeadReason::kLeftInMailbox);
  const ActorRow row = probe.row(texts());
  EXPECT_EQ(row.sent, 10);
  EXPECT_EQ(row.handled, 4);
  EXPECT_EQ(row.dead, 1);
  EXPECT_EQ(row.depth, 5);
  EXPECT_EQ(row.sent, row.handled + row.dead + row.depth);
  EXPECT_EQ(row.depth_max, 10);
}

std::map<std::int64_t, std::int64_t> by_bound_ns(const HistogramRow& times) {
  std::map<std::int64_t, std::int64_t> counts;
  for (std::size_t i = 0; i < times.counts.size(); ++i) {
    const std::int64_t bound = i < times.bounds_s.size() ? std::llround(times.bounds_s[i] * 1e9) : -1;
    if (times.counts[i] != 0) counts[bound] = times.counts[i];
  }
  return counts;
}

TEST_F(ProbeTest, CountsTimesInMailboxAndHandler) {
  const int slot = probe.add_type(3);
  const auto handled_after = [&](std::int64_t waits_ns, std::int64_t takes_ns) {
    const Probe::Sent sent = probe.sent(3);
    clock.advance(waits_ns);
    probe.begin_handling(slot, sent);
    clock.advance(takes_ns);
    probe.end_handling(sent);
  };
  clock.advance(1);
  handled_after(0, 250);               // at a bound
  handled_after(250, 251);
  handled_after(1'000'000, 1'024'000);
  handled_after(1'024'001, 0);
  handled_after(40'000'000'000, 500'000'000'000'000);  // above all
  using Counts = std::map<std::int64_t, std::int64_t>;
  const ActorRow row = probe.row(texts());
  EXPECT_EQ(by_bound_ns(row.in_mailbox), (Counts{{250, 2}, {1'024'000, 1}, {2'048'000, 1}, {-1, 1}}));
  EXPECT_EQ(by_bound_ns(row.in_handler), (Counts{{250, 2}, {500, 1}, {1'024'000, 1}, {-1, 1}}));
  EXPECT_EQ(row.in_mailbox.counts.size(), row.in_mailbox.bounds_s.size() + 1);
}

// Each message has its own time, also where more wait than the ring of stamps holds.
TEST_F(ProbeTest, CountsTheTimeOfEveryMessageOfADeepMailbox) {
  const int slot = probe.add_type(3);
  clock.advance(1);
  std::vector<Probe::Sent> sent;
  for (std::uint64_t i = 0; i < 4 * SentCounts::kStamps; ++i) {
    sent.push_back(probe.sent(3));
    clock.advance(1'000);
  }
  std::map<std::int64_t, std::int64_t> expected;
  for (const auto& its : sent) {
    const std::int64_t waited_ns = clock.now_ns() - static_cast<std::int64_t>(its.at);
    std::int64_t bound_ns = 250;
    while (bound_ns < waited_ns) bound_ns *= 2;
    ++expected[bound_ns];
    probe.begin_handling(slot, its);
    probe.end_handling(its);
  }
  EXPECT_EQ(by_bound_ns(probe.row(texts()).in_mailbox), expected);
}

TEST_F(ProbeTest, ShowsWhatWaitsAndHowLong) {
  const int slot = probe.add_type(7);
  probe.sent(7);
  clock.advance(100);
  probe.sent(8);
  clock.advance(50);
  ActorRow row = probe.row(texts());
  EXPECT_EQ(row.state, State::kReady);
  EXPECT_EQ(row.oldest_ns, 150);
  ASSERT_EQ(row.waiting.size(), 2u);
  EXPECT_EQ(row.waiting[0].type, "Type7");
  EXPECT_EQ(row.waiting[1].type, "Type8");
  EXPECT_EQ(row.waiting[1].age_ns, 50);
  handle(slot);
  row = probe.row(texts());
  ASSERT_EQ(row.waiting.size(), 1u);
  EXPECT_EQ(row.waiting[0].type, "Type8");
}

TEST_F(ProbeTest, ShowsTheHandlerItIsStuckIn) {
  const int slot = probe.add_type(2);
  probe.sent(2);
  probe.set_state(State::kWaitingForCredit, Name{5});
  probe.begin_handling(slot);
  clock.advance(3'000'000);
  const ActorRow row = probe.row(texts());
  EXPECT_EQ(row.state, State::kHandling);
  EXPECT_EQ(row.detail, "Type2");
  EXPECT_EQ(row.since_ns, 3'000'000);
}

TEST_F(ProbeTest, ShowsWhatTheActorSaysItWaitsFor) {
  probe.set_state(State::kWaitingForCollective, Name{9}, 42);
  clock.advance(77);
  const ActorRow row = probe.row(texts());
  EXPECT_EQ(row.state, State::kWaitingForCollective);
  EXPECT_EQ(row.detail, "name9");
  EXPECT_EQ(row.number, 42);
  EXPECT_EQ(row.since_ns, 77);
  EXPECT_EQ(row.from, "");
  probe.set_state(State::kWaitingForInput, Name{9}, 43, Name{0xfffffe});
  EXPECT_EQ(probe.row(texts()).state, State::kWaitingForInput);
  EXPECT_EQ(probe.row(texts()).detail, "name9");
  EXPECT_EQ(probe.row(texts()).from, "name16777214");
  probe.set_state(State::kIdle);
  EXPECT_EQ(probe.row(texts()).state, State::kIdle);
  EXPECT_EQ(probe.row(texts()).from, "");
}

// Whoever handles something and waits on for the same says so again.
TEST_F(ProbeTest, AWaitThatIsSaidAgainGoesOn) {
  probe.set_state(State::kWaitingForInput, Name{9}, 43, Name{5});
  clock.advance(70);
  probe.set_state(State::kWaitingForInput, Name{9}, 43, Name{5});
  clock.advance(7);
  EXPECT_EQ(probe.row(texts()).since_ns, 77);
  EXPECT_EQ(probe.events_since(0, texts()).rows.size(), 1u);
  probe.set_state(State::kWaitingForInput, Name{9}, 43, Name{6});
  EXPECT_EQ(probe.row(texts()).since_ns, 0);
  clock.advance(1);
  probe.set_state(State::kWaitingForInput, Name{9}, 44, Name{6});
  EXPECT_EQ(probe.row(texts()).since_ns, 0);
  clock.advance(1);
  probe.set_state(State::kWaitingForInput, Name{9});
  clock.advance(1);
  probe.set_state(State::kWaitingForInput, Name{9});  // the next of them
  EXPECT_EQ(probe.row(texts()).since_ns, 0);
}

TEST_F(ProbeTest, CountsByTypeAndTime) {
  const int one = probe.add_type(1), two = probe.add_type(2);
  for (int i = 0; i < 3; ++i) probe.sent(1);
  probe.sent(2);
  handle(one, 10);
  handle(one, 10);
  handle(two, 1000);
  const ActorRow row = probe.row(texts());
  ASSERT_EQ(row.messages.size(), 2u);
  EXPECT_EQ(row.messages[0].type, "Type1");
  EXPECT_EQ(row.messages[0].handled, 2);
  EXPECT_EQ(row.messages[0].handling_ns, 20);
  EXPECT_EQ(row.messages[1].handling_ns, 1000);
  EXPECT_EQ(row.handling_ns, 1020);
}

// A brief report leaves that out; all else is as in the others.
TEST_F(ProbeTest, LeavesOutWhatIsLongInBrief) {
  const int slot = probe.add_type(3);
  for (int i = 0; i < 100; ++i) probe.sent(3);
  for (int i = 0; i < 4; ++i) handle(slot, 10);
  probe.dead_letter(3, DeadReason::kNoHandler);
  probe.set_state(State::kRunning, Name{4}, 5, Name{6});
  ActorRow all = probe.row(texts());
  const ActorRow brief = probe.row(texts(), Detail::kBrief);
  EXPECT_FALSE(all.messages.empty() || all.waiting.empty() || all.dead_letters.empty() || all.in_mailbox.counts.empty());
  all.messages.clear();
  all.waiting.clear();
  all.dead_letters.clear();
  all.in_mailbox = all.in_handler = {};
  EXPECT_EQ(brief, all);
  EXPECT_GT(brief.oldest_ns, 0);
  EXPECT_EQ(brief.handling_ns, 40);
}

TEST_F(ProbeTest, CountsDeadLettersByTypeAndReason) {
  for (int i = 0; i < 3; ++i) {
    probe.sent(1);
    probe.dead_letter(1, DeadReason::kAfterEnd);
  }
  probe.sent(1);
  probe.dead_letter(1, DeadReason::kNoHandler);
  probe.sent(4);
  probe.dead_letter(4, DeadReason::kAfterEnd);
  const ActorRow row = probe.row(texts());
  ASSERT_EQ(row.dead_letters.size(), 3u);
  EXPECT_EQ(row.dead_letters[0].type, "Type1");
  EXPECT_EQ(row.dead_letters[0].reason, DeadReason::kAfterEnd);
  EXPECT_EQ(row.dead_letters[0].count, 3);
  EXPECT_EQ(row.dead_letters[1].reason, DeadReason::kNoHandler);
  EXPECT_EQ(row.dead_letters[2].type, "Type4");
  EXPECT_EQ(row.dead, 5);
}

TEST_F(ProbeTest, KeepsTheSumOfDeadLettersBeyondItsTable) {
  for (std::uint32_t type = 0; type < 100; ++type) {
    probe.sent(type);
    probe.dead_letter(type, DeadReason::kNoHandler);
  }
  const ActorRow row = probe.row(texts());
  std::int64_t sum = 0;
  for (const auto& letters : row.dead_letters) sum += letters.count;
  EXPECT_EQ(sum, 100);
  EXPECT_EQ(row.dead, 100);
  EXPECT_EQ(row.depth, 0);
}

// CASES A24: a bounded ring, and it says what it lost.
TEST_F(ProbeTest, CountsTheEventsItLost) {
  const int slot = probe.add_type(1);
  const auto total = static_cast<std::int64_t>(Probe::kEvents) + 100;
  for (std::int64_t i = 0; i < total; ++i) {
    probe.sent(1);
    handle(slot, 1);
  }
  const auto events = probe.events_since(0, texts());
  EXPECT_EQ(events.rows.size(), Probe::kEvents);
  EXPECT_EQ(events.lost, 100);
  EXPECT_EQ(events.next, static_cast<std::uint64_t>(total));
  EXPECT_EQ(probe.row(texts()).events_lost, 100);
  EXPECT_EQ(events.rows.front().at_ns, 100);  // one event a nanosecond
  EXPECT_EQ(events.rows.back().at_ns, total - 1);
}

TEST_F(ProbeTest, LosesNothingForAReaderThatKeepsUp) {
  const int slot = probe.add_type(1);
  std::uint64_t next = 0;
  std::size_t seen = 0;
  for (int i = 0; i < 10; ++i) {
    for (int k = 0; k < 100; ++k) {
      probe.sent(1);
      handle(slot);
    }
    const auto events = probe.events_since(next, texts());
    EXPECT_EQ(events.lost, 0);
    seen += events.rows.size();
    next = events.next;
  }
  EXPECT_EQ(seen, 1000u);
  EXPECT_TRUE(probe.events_since(next, texts()).rows.empty());
}

TEST_F(ProbeTest, TellsItsStatesAsEvents) {
  probe.set_state(State::kRunning, Name{3}, 12);
  probe.mark(Name{4}, -2);
  const auto events = probe.events_since(0, texts());
  ASSERT_EQ(events.rows.size(), 2u);
  EXPECT_EQ(events.rows[0].kind, EventKind::kState);
  EXPECT_EQ(events.rows[0].text, "running name3");
  EXPECT_EQ(events.rows[0].number, 12);
  EXPECT_EQ(events.rows[1].text, "name4");
  EXPECT_EQ(events.rows[1].number, -2);
}

TEST_F(ProbeTest, RefusesMoreTypesThanItCounts) {
  for (int i = 0; i < Probe::kTypes; ++i) probe.add_type(static_cast<std::uint32_t>(i));
  EXPECT_DEATH(probe.add_type(99), "actor 'a' handles more than 48 message types");
}

TEST_F(ProbeTest, TellsTheAgeOfTheOldestOfMany) {
  clock.advance(1);
  for (int i = 0; i < 1000; ++i) {
    probe.sent(1);
    clock.advance(10);
  }
  const ActorRow row = probe.row(texts());
  EXPECT_EQ(row.depth, 1000);
  EXPECT_GT(row.oldest_ns, 10'000 / 2);
  EXPECT_LE(row.oldest_ns, 10'000);
  EXPECT_EQ(probe.depth_max(), 1000) << "the most there ever were, also where only who looked saw it";
  EXPECT_EQ(row.waiting.size(), SentCounts::kKnown);
}

// By the processor's counter: handlers that are so quick that most are not timed.
struct QuickProbe : testing::Test {
  Probe probe{"a", Ticks()};
  const int one = probe.add_type(1), two = probe.add_type(2);

  void SetUp() override {
    if (!has_constant_counter()) GTEST_SKIP() << "skipped because this processor's counter is not the probes' clock";
    probe.begin_turn();
  }
  void handle(int slot, const Probe::Sent& sent) {
    probe.begin_handling(slot, sent);
    probe.end_handling(sent);
  }
  static std::int64_t sum(const HistogramRow& times) { return std::accumulate(times.counts.begin(), times.counts.end(), std::int64_t{0}); }
  static std::int64_t above(const HistogramRow& times, double bound_s) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < times.counts.size(); ++i) count += i > 0 && times.bounds_s[i - 1] >= bound_s ? times.counts[i] : 0;
    return count;
  }
};

TEST_F(QuickProbe, CountsTheUntimed) {
  std::int64_t ones = 0, twos = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool is_two = i % 3 == 0;
    ++(is_two ? twos : ones);
    handle(is_two ? two : one, probe.sent(is_two ? 2 : 1));
    if (i % 7 != 0) continue;
    const ActorRow row = probe.row(texts());
    ASSERT_EQ(row.handled, ones + twos);
    ASSERT_EQ(row.depth, 0);
    ASSERT_EQ(row.messages.size(), ones == 0 ? 1u : 2u);
    if (ones > 0) {
      ASSERT_EQ(row.messages[0].handled, ones);
    }
    ASSERT_EQ(row.messages.back().handled, twos);
    ASSERT_EQ(sum(row.in_mailbox), row.handled);
    ASSERT_EQ(sum(row.in_handler), row.handled);
  }
}

TEST_F(QuickProbe, HasOneEventForManyOfTheUntimed) {
  for (int i = 0; i < 50'000; ++i) handle(one, probe.sent(1));  // that is their habit, whatever the machine did in between
  std::uint64_t seen = probe.events_since(0, texts()).next;
  std::int64_t untimed = 0, all_untimed = 0;
  for (int i = 0; i < 5000; ++i) {
    const Probe::Sent sent = probe.sent(1);
    probe.begin_handling(one, sent);
    const bool is_timed = probe.now().guessed_on == nullptr;
    probe.end_handling(sent);
    const auto events = probe.events_since(seen, texts());
    ASSERT_EQ(events.rows.size(), is_timed ? 1u : 0u);
    if (is_timed && i > 200) {
      EXPECT_EQ(events.rows[0].others, untimed);
    }
    untimed = is_timed ? 0 : untimed + 1;
    all_untimed += !is_timed;
    seen = events.next;
    probe.begin_turn();  // looking is nothing that a handler did
  }
  if (!kSanitized) {
    EXPECT_GT(all_untimed, 2500) << "most are not timed";
  }
}

// What waited long is seen, though its handler is not timed: the others did not.
TEST_F(QuickProbe, KnowsHowLongTheUntimedWaited) {
  for (int i = 0; i < 1000; ++i) handle(one, probe.sent(1));
  const std::int64_t before = above(probe.row(texts()).in_mailbox, 0.004);
  const Ticks ticks;
  const std::uint64_t now = ticks.now(), long_ago = now - ticks.in_ticks(10'000'000);
  for (int i = 0; i < 200; ++i) {
    Probe::Sent sent{.at = i % 10 == 3 ? long_ago : ticks.now()};
    probe.sent(1, sent);
    handle(one, sent);
  }
  const ActorRow row = probe.row(texts());
  EXPECT_EQ(above(row.in_mailbox, 0.004) - before, 20);
  EXPECT_EQ(sum(row.in_mailbox), 1200);
}

TEST_F(QuickProbe, ShowsTheUntimedHandlerItIsStuckIn) {
  for (int i = 0; i < 1000; ++i) handle(one, probe.sent(1));
  const auto events = [this] { return probe.events_since(0, texts()).next; };
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t before = events();
    const Probe::Sent sent = probe.sent(1);
    probe.begin_handling(one, sent);
    const ActorRow row = probe.row(texts());
    EXPECT_EQ(row.state, State::kHandling);
    EXPECT_EQ(row.detail, "Type1");
    EXPECT_EQ(row.handled, 1000 + i);
    EXPECT_EQ(row.depth, 1) << "it is in hand";
    EXPECT_LT(row.since_ns, 10'000'000'000);
    const bool is_guessed = probe.now().guessed_on != nullptr;
    probe.end_handling(sent);
    EXPECT_NE(is_guessed, events() > before) << "of the untimed it is guessed when they send";
    EXPECT_EQ(probe.row(texts()).state, State::kIdle);
    EXPECT_EQ(probe.now().guessed_on, nullptr);
  }
}

TEST_F(QuickProbe, TakesTheUntimedForAsLongAsTheLastTimedOne) {
  std::int64_t last_ns = 0, took_ns = 0;
  std::uint64_t seen = 0;
  for (int i = 0; i < 5000; ++i) {
    handle(one, probe.sent(1));
    const auto events = probe.events_since(seen, texts());
    seen = events.next;
    const std::int64_t all_ns = probe.row(texts()).handling_ns;
    if (events.rows.empty()) {
      EXPECT_NEAR(static_cast<double>(all_ns - last_ns), static_cast<double>(took_ns), 2.0) << i;
    } else {
      took_ns = events.rows.back().duration_ns;
    }
    last_ns = all_ns;
  }
}

// Law 10: a reader never disturbs and never waits, while writers go on.
TEST(Probe, IsReadWhileItIsWritten) {
  const auto probe = std::make_unique<Probe>("busy", Ticks());
  const int slot = probe->add_type(1);
  std::atomic<bool> done{false};
  std::thread sender([&] {
    for (int i = 0; i < 50'000; ++i) probe->sent(1);
  });
  std::thread actor([&] {
    for (int handled = 0; handled < 50'000;) {
      if (probe->depth() == 0) continue;
      probe->begin_handling(slot);
      probe->set_state(State::kRunning, Name{static_cast<std::uint32_t>(handled)}, handled);
      probe->end_handling();
      ++handled;
    }
    done.store(true);
  });
  while (!done.load()) {
    const ActorRow row = probe->row(texts());
    EXPECT_EQ(row.sent, row.handled + row.dead + row.depth);
    if (row.state == State::kRunning && row.number > 0) {
      EXPECT_EQ(row.detail, "name" + std::to_string(row.number));
    }
    for (const auto& event : probe->events_since(0, texts()).rows) {
      if (event.kind == EventKind::kHandled) {
        EXPECT_EQ(event.text, "Type1");
      }
    }
  }
  sender.join();
  actor.join();
  EXPECT_EQ(probe->row(texts()).handled, 50'000);
}

// The same with handlers most of which are not timed: a reader finds counts that go together.
TEST(Probe, IsReadWhileTheQuickAreCounted) {
  const auto probe = std::make_unique<Probe>("busy", Ticks());
  const int slot = probe->add_type(1), other = probe->add_type(2);
  std::atomic<bool> done{false};
  std::thread actor([&] {
    probe->begin_turn();
    for (int handled = 0; handled < 300'000; ++handled) {
      const Probe::Sent sent = probe->sent(1);
      probe->begin_handling(handled % 5 == 0 ? other : slot, sent);
      probe->end_handling(sent);
    }
    done.store(true);
  });
  ActorRow last = probe->row(texts());
  while (!done.load()) {
    const ActorRow row = probe->row(texts());
    EXPECT_EQ(row.sent, row.handled + row.dead + row.depth);
    std::int64_t by_type = 0, mailbox = 0, handler = 0;
    for (const auto& message : row.messages) by_type += message.handled;
    for (const std::int64_t count : row.in_mailbox.counts) mailbox += count;
    for (std::size_t i = 0; i < row.in_handler.counts.size(); ++i) {
      handler += row.in_handler.counts[i];
      EXPECT_GE(row.in_handler.counts[i], last.in_handler.counts[i]) << "bucket " << i;
    }
    EXPECT_EQ(by_type, row.handled);
    EXPECT_EQ(mailbox, row.handled);
    EXPECT_EQ(handler, row.handled);
    EXPECT_GE(row.handled, last.handled);
    EXPECT_GE(row.handling_ns, last.handling_ns);
    last = row;
  }
  actor.join();
  EXPECT_EQ(probe->row(texts()).handled, 300'000);
}

}  // namespace
}  // namespace troupe::trace
