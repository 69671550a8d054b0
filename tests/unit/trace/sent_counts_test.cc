#include "runtime/trace/sent_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace troupe::trace {
namespace {

std::uint64_t at(std::uint64_t ticks, std::uint64_t type = 1) { return ticks << 12 | type; }

// More at a time than have places of their own, and more after each other than there are places.
TEST(SentCountsTest, CountsForThreadsThatComeAndGo) {
  const auto counts = std::make_unique<SentCounts>();
  constexpr std::uint64_t kThreads = 3 * SentCounts::kOwn, kEach = 20'000;
  for (int round = 0; round < 4; ++round) {
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        while (!go.load()) std::this_thread::yield();
        for (std::uint64_t number = 0; number < kEach; ++number) counts->add(at(number + 1));
      });
    }
    go.store(true);
    std::uint64_t last = counts->total();
    for (int look = 0; look < 1000; ++look) {
      const std::uint64_t now = counts->total();
      EXPECT_GE(now, last);
      last = now;
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(counts->total(), 4 * kThreads * kEach);
}

TEST(SentCountsTest, KnowsTheNewest) {
  const auto counts = std::make_unique<SentCounts>();
  for (std::uint64_t i = 1; i <= 100; ++i) counts->add(at(i, i));
  EXPECT_EQ(counts->newest(3, at(500, 0)).stamps, (std::vector{at(98, 98), at(99, 99), at(100, 100)}));
  EXPECT_EQ(counts->newest(3, at(500, 0)).oldest, at(98, 98));
  EXPECT_TRUE(counts->newest(0, at(500, 0)).stamps.empty());
  EXPECT_EQ(counts->newest(0, at(500, 0)).oldest, 0u);
  EXPECT_EQ(counts->newest(99, at(500, 0)).stamps.size(), SentCounts::kKnown);
}

// They are in the order of their times, whoever sent them.
TEST(SentCountsTest, PutsTogetherWhatSeveralThreadsSent) {
  const auto counts = std::make_unique<SentCounts>();
  const auto send_by_another = [&](std::vector<std::uint64_t> stamps) {
    std::thread([&] {
      for (const auto stamp : stamps) counts->add(stamp);
    }).join();
  };
  counts->add(at(10));
  counts->add(at(30));
  std::atomic<bool> done{false};
  std::atomic<int> has_begun{0};
  std::thread keeps_its_place([&] {  // so that the third has another
    counts->add(at(20, 2));
    has_begun.store(1);
    while (!done.load()) std::this_thread::yield();
  });
  while (has_begun.load() == 0) std::this_thread::yield();
  send_by_another({at(15, 3), at(40, 3)});
  EXPECT_EQ(counts->newest(3, at(50, 0)).stamps, (std::vector{at(20, 2), at(30), at(40, 3)}));
  EXPECT_EQ(counts->newest(5, at(50, 0)).stamps, (std::vector{at(10), at(15, 3), at(20, 2), at(30), at(40, 3)}));
  EXPECT_EQ(counts->newest(5, at(50, 0)).oldest, at(10));
  done.store(true);
  keeps_its_place.join();
}

// As its header allows: exactly among the newest, then to the half of those that wait, as far as its marks reach.
TEST(SentCountsTest, TellsTheAgeOfTheOldestOfMany) {
  const auto counts = std::make_unique<SentCounts>();
  constexpr std::uint64_t kReach = 7 * 64 * SentCounts::kStamps;
  std::uint64_t sent = 0;
  for (const std::uint64_t all : {50u, 64u, 65u, 127u, 128u, 200u, 1000u, 1500u, 5000u, 5001u, 40'000u, 100'000u}) {
    while (sent < all) ++sent, counts->add(at(sent));
    for (std::uint64_t waiting = 1; waiting <= all; waiting += waiting < 200 ? 1 : 1 + waiting / 20) {
      const std::uint64_t oldest = counts->newest(waiting, at(sent + 10, 0)).oldest >> 12, first = all - waiting + 1;
      EXPECT_GE(oldest, first) << waiting << " of " << all;
      if (waiting <= SentCounts::kKnown) {
        EXPECT_EQ(oldest, first);
      } else if (waiting <= 400) {
        EXPECT_LT(oldest, first + SentCounts::kStamps) << waiting << " of " << all;
      } else {
        EXPECT_LE(oldest, all - std::min(waiting, kReach) / 2) << waiting << " of " << all;
      }
    }
  }
}

// What is said to wait waits, however the senders take turns.
TEST(SentCountsTest, CallsNoMessageOldThatDoesNotWait) {
  for (const int senders : {2, 3, 5}) {
    const auto counts = std::make_unique<SentCounts>();
    std::atomic<std::uint64_t> sent{0};
    constexpr std::uint64_t kAll = 3000;
    const std::uint64_t burst = senders == 2 ? 1 : 16;  // taking turns costs a loaded machine a slice each
    std::vector<std::thread> threads;
    for (int i = 0; i < senders; ++i) {
      threads.emplace_back([&, i] {
        while (true) {
          const std::uint64_t now = sent.load();
          if (now >= kAll) break;
          if (now / burst % 17 % static_cast<std::uint64_t>(senders) != static_cast<std::uint64_t>(i)) {
            std::this_thread::yield();
            continue;
          }
          counts->add(at(now + 1));
          sent.store(now + 1);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (std::uint64_t waiting = 1; waiting <= kAll; waiting += 1 + waiting / 50) {
      const auto newest = counts->newest(waiting, at(kAll + 10, 0));
      const std::uint64_t oldest = newest.oldest >> 12, first = kAll - waiting + 1;
      EXPECT_GE(oldest, first) << waiting << " of " << senders << " senders";
      EXPECT_LE(oldest, kAll - waiting / 2) << waiting << " of " << senders << " senders";
      if (waiting <= SentCounts::kKnown) {
        EXPECT_EQ(oldest, first);
        EXPECT_EQ(newest.stamps.size(), waiting);
      }
    }
  }
}

// What is overwritten meanwhile is left out: no list has a newer message before an older one, or one that was sent after the question.
TEST(SentCountsTest, KnowsThemInOrderWhileMoreAreSent) {
  const auto counts = std::make_unique<SentCounts>();
  std::atomic<std::uint64_t> sent{0};
  std::atomic<bool> over{false};
  std::thread sender([&] {
    for (std::uint64_t number = 1; !over.load(std::memory_order_relaxed); ++number) {
      counts->add(at(number));
      sent.store(number);
    }
  });
  while (sent.load() < 10'000) std::this_thread::yield();
  for (int look = 0; look < 20'000; ++look) {
    const std::uint64_t waiting = look % 2 == 0 ? 60 : 3000;
    const auto newest = counts->newest(waiting, at(~std::uint64_t{0} >> 13, 0));
    const std::uint64_t afterwards = sent.load() + 1;
    ASSERT_TRUE(std::ranges::is_sorted(newest.stamps)) << look;
    for (const auto stamp : newest.stamps) ASSERT_LE(stamp >> 12, afterwards);
    if (newest.stamps.empty()) continue;
    ASSERT_LE(newest.oldest, newest.stamps.front());
    ASSERT_LE(newest.stamps.back() - newest.stamps.front(), at(SentCounts::kKnown, 0)) << "they follow each other";
  }
  over.store(true);
  sender.join();
}

// A sender that guesses when it sends may guess before its last message.
TEST(SentCountsTest, KeepsTheOrderOfASenderThatGuesses) {
  const auto counts = std::make_unique<SentCounts>();
  counts->add(at(10));
  counts->add(at(20, 2));
  counts->add(at(12, 3));
  EXPECT_EQ(counts->newest(2, at(30, 0)).stamps, (std::vector{at(20, 2), at(12, 3)}));
}

TEST(SentCountsTest, TimesMayPassTheEndOfTheirBits) {
  const auto counts = std::make_unique<SentCounts>();
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 52;
  counts->add(at(kEnd - 5, 7));
  counts->add(at(kEnd + 5, 8));
  EXPECT_EQ(counts->newest(2, at(kEnd + 9, 0)).stamps, (std::vector{at(kEnd - 5, 7), at(kEnd + 5, 8)}));
}

}  // namespace
}  // namespace troupe::trace
