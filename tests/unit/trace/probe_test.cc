#include "runtime/trace/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace troupe::trace {
namespace {

Texts texts() {
  return {[](Name name) { return name.id == 0 ? std::string() : "name" + std::to_string(name.id); },
          [](std::uint32_t type) { return "Type" + std::to_string(type); }};
}

struct ProbeTest : testing::Test {
  VirtualClock clock;
  Probe probe{"a", Ticks(&clock)};

  void handle(std::uint32_t type, int slot, std::int64_t for_ns = 0) {
    const std::uint64_t begun = probe.begin_handling(type, slot);
    clock.advance(for_ns);
    probe.end_handling(type, slot, begun);
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
  for (int i = 0; i < 4; ++i) handle(3, slot);
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
    const std::uint64_t begun = probe.begin_handling(3, slot, sent);
    clock.advance(takes_ns);
    probe.end_handling(3, slot, begun);
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
  for (std::uint64_t i = 0; i < 4 * Probe::kStamps; ++i) {
    sent.push_back(probe.sent(3));
    clock.advance(1'000);
  }
  std::map<std::int64_t, std::int64_t> expected;
  for (const auto& its : sent) {
    const std::int64_t waited_ns = clock.now_ns() - static_cast<std::int64_t>(its.at);
    std::int64_t bound_ns = 250;
    while (bound_ns < waited_ns) bound_ns *= 2;
    ++expected[bound_ns];
    probe.end_handling(3, slot, probe.begin_handling(3, slot, its));
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
  handle(7, slot);
  row = probe.row(texts());
  ASSERT_EQ(row.waiting.size(), 1u);
  EXPECT_EQ(row.waiting[0].type, "Type8");
}

TEST_F(ProbeTest, ShowsTheHandlerItIsStuckIn) {
  const int slot = probe.add_type(2);
  probe.sent(2);
  probe.set_state(State::kWaitingForCredit, Name{5});
  probe.begin_handling(2, slot);
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

TEST_F(ProbeTest, CountsByTypeAndTime) {
  const int one = probe.add_type(1), two = probe.add_type(2);
  for (int i = 0; i < 3; ++i) probe.sent(1);
  probe.sent(2);
  handle(1, one, 10);
  handle(1, one, 10);
  handle(2, two, 1000);
  const ActorRow row = probe.row(texts());
  ASSERT_EQ(row.messages.size(), 2u);
  EXPECT_EQ(row.messages[0].type, "Type1");
  EXPECT_EQ(row.messages[0].handled, 2);
  EXPECT_EQ(row.messages[0].handling_ns, 20);
  EXPECT_EQ(row.messages[1].handling_ns, 1000);
  EXPECT_EQ(row.handling_ns, 1020);
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
    handle(1, slot, 1);
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
      handle(1, slot);
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
      const std::uint64_t begun = probe->begin_handling(1, slot);
      probe->set_state(State::kRunning, Name{static_cast<std::uint32_t>(handled)}, handled);
      probe->end_handling(1, slot, begun);
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

}  // namespace
}  // namespace troupe::trace
