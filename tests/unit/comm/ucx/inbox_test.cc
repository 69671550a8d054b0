// How other threads reach the progress thread: nothing pushed is left lying while it sleeps, and nothing gets in after the end.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/ucx/inbox.h"
#include "runtime/base/sanitizer.h"

namespace troupe::comm {
namespace {

bool readable(const Inbox& inbox, int within_ms = 0) {
  pollfd event{inbox.event_fd(), POLLIN, 0};
  return poll(&event, 1, within_ms) == 1;
}

// What was pushed runs, in order.
std::size_t run_all(Inbox& inbox) {
  auto commands = inbox.take();
  for (auto& command : commands) std::get<absl::AnyInvocable<void()>>(command)();
  return commands.size();
}

TEST(UcxInbox, GivesWhatWasPushedOnceAndInOrder) {
  Inbox inbox;
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i) inbox.push([&ran, i] { ran.push_back(i); });
  EXPECT_EQ(run_all(inbox), 3u);
  EXPECT_EQ(run_all(inbox), 0u);
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2}));
}

TEST(UcxInbox, APushWakesWhoSleepsAndNobodyElse) {
  Inbox inbox;
  inbox.push([] {});
  EXPECT_FALSE(readable(inbox)) << "nobody sleeps";
  EXPECT_FALSE(inbox.fall_asleep()) << "something has come";
  inbox.push([] {});
  EXPECT_FALSE(readable(inbox)) << "it did not fall asleep";
  EXPECT_EQ(run_all(inbox), 2u);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(inbox.fall_asleep());
    EXPECT_FALSE(readable(inbox));
    inbox.push([] {});
    EXPECT_TRUE(readable(inbox));
    inbox.awake();
    EXPECT_FALSE(readable(inbox));
    inbox.push([] {});
    EXPECT_FALSE(readable(inbox)) << "it is awake";
    EXPECT_EQ(run_all(inbox), 2u);
  }
  ASSERT_TRUE(inbox.fall_asleep());
  inbox.awake();  // by its own timer
  inbox.push([] {});
  EXPECT_FALSE(readable(inbox)) << "it is awake";
}

// Only the first of them makes a system call.
TEST(UcxInbox, ManyPushesWakeOnce) {
  Inbox inbox;
  ASSERT_TRUE(inbox.fall_asleep());
  for (int i = 0; i < 3; ++i) inbox.push([] {});
  std::uint64_t wakes = 0;
  ASSERT_EQ(read(inbox.event_fd(), &wakes, sizeof wakes), static_cast<ssize_t>(sizeof wakes));
  EXPECT_EQ(wakes, 1u);
}

TEST(UcxInbox, WhatComesWhileThePlaceIsLentWakesWhenItIsGivenBack) {
  Inbox inbox;
  ASSERT_TRUE(inbox.fall_asleep());
  ASSERT_TRUE(inbox.borrow());
  inbox.give_back(false);
  EXPECT_FALSE(readable(inbox)) << "there is nothing to do";
  ASSERT_TRUE(inbox.borrow());
  inbox.push([] {});
  EXPECT_FALSE(readable(inbox)) << "the place is lent";
  inbox.give_back(false);
  EXPECT_TRUE(readable(inbox));
  inbox.awake();
  EXPECT_EQ(run_all(inbox), 1u);
  ASSERT_TRUE(inbox.fall_asleep());
  ASSERT_TRUE(inbox.borrow());
  inbox.give_back(true);
  EXPECT_TRUE(readable(inbox)) << "the borrower says that there is something to do";
}

TEST(UcxInbox, WhoWakesWaitsForTheBorrower) {
  Inbox inbox;
  ASSERT_TRUE(inbox.fall_asleep());
  ASSERT_TRUE(inbox.borrow());
  std::atomic<bool> wakes = false, woke = false;
  std::thread sleeper([&] {
    wakes = true;
    inbox.awake();  // by its own timer
    woke = true;
  });
  for (int i = 0; !wakes || i < 1'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(woke);
  inbox.give_back(false);
  sleeper.join();
}

TEST(UcxInbox, AStopWakesWhoSleepsAndKeepsItAwake) {
  Inbox inbox;
  EXPECT_FALSE(inbox.stopped());
  ASSERT_TRUE(inbox.fall_asleep());
  inbox.stop();
  EXPECT_TRUE(readable(inbox));
  EXPECT_TRUE(inbox.stopped());
  inbox.awake();
  EXPECT_FALSE(inbox.fall_asleep());
}

TEST(UcxInbox, AfterTheEndNothingGetsInAndThePusherDestroysIt) {
  Inbox inbox;
  inbox.open();
  EXPECT_TRUE(inbox.on_progress_thread());
  inbox.push([] {});
  EXPECT_EQ(inbox.close().size(), 1u) << "what came before is given back";
  EXPECT_FALSE(inbox.on_progress_thread()) << "there is none any more";
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  inbox.push([held = std::move(held)] {});
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(run_all(inbox), 0u);
  EXPECT_TRUE(inbox.fall_asleep()) << "nothing has come";
}

TEST(UcxInbox, OnlyOneThreadIsTheProgressThread) {
  Inbox inbox;
  EXPECT_FALSE(inbox.on_progress_thread());
  std::thread([&] {
    inbox.open();
    EXPECT_TRUE(inbox.on_progress_thread());
  }).join();
  EXPECT_FALSE(inbox.on_progress_thread());
}

// Each pusher waits until what it pushed has run: a wake-up that is lost is a sleep without an end. One alone pushes again just when the
// other thread is about to sleep; several push while it wakes.
TEST(UcxInbox, NoPushIsSleptThrough) {
  constexpr int kEach = kSanitized ? 2'000 : 40'000;
  for (const std::size_t pushers : {1u, 3u}) {
    Inbox inbox;
    std::vector<std::atomic<int>> ran(pushers);
    bool overslept = false;
    std::thread progress([&] {
      inbox.open();
      while (!inbox.stopped()) {
        if (run_all(inbox) > 0) continue;
        if (inbox.fall_asleep() && !readable(inbox, overslept ? 1 : 20'000)) overslept = true;
        inbox.awake();
      }
    });
    std::vector<std::thread> threads;
    for (auto& mine : ran) {
      threads.emplace_back([&] {
        for (int n = 0; n < kEach; ++n) {
          inbox.push([&mine] { ++mine; });
          while (mine == n) std::this_thread::yield();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    inbox.stop();
    progress.join();
    EXPECT_FALSE(overslept);
    for (const auto& each : ran) EXPECT_EQ(each, kEach);
  }
}

// One that sleeps whenever it has nothing to do, as the progress thread does with a spin of 0. What it owns is no atomic: two at a time
// lose counts, and the thread sanitizer says so.
class Sleeper {
 public:
  Sleeper() : thread_([this] { run(); }) {}
  ~Sleeper() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    inbox.stop();
    thread_.join();
  }

  Inbox inbox;
  std::int64_t done = 0, sleeps = 0;  // of the thread, or of who has borrowed its place

 private:
  void run() {
    inbox.open();
    while (true) {
      const auto commands = inbox.take();
      done += static_cast<std::int64_t>(commands.size());
      if (!commands.empty()) continue;
      if (inbox.stopped()) return;
      if (!inbox.fall_asleep()) continue;
      pollfd descriptor{inbox.event_fd(), POLLIN, 0};
      const int woken = poll(&descriptor, 1, 10'000);
      inbox.awake();
      EXPECT_EQ(woken, 1) << "nobody woke it";
      ++sleeps;
    }
  }
  std::thread thread_;
};

TEST(UcxInbox, LendsThePlaceOfASleeperToOneAtATime) {
  constexpr int kSenders = 4, kEach = 20'000;
  Sleeper sleeper;
  std::atomic<std::int64_t> borrowed = 0;
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kEach; ++i) {
        if (sleeper.inbox.borrow()) {
          ++sleeper.done;
          sleeper.inbox.give_back((i + sender) % 7 == 0);
          borrowed.fetch_add(1);
        } else {
          sleeper.inbox.push([] {});
        }
        if (i % 16 == 0) std::this_thread::yield();
      }
    });
  }
  for (auto& sender : senders) sender.join();
  sleeper.stop();
  EXPECT_EQ(sleeper.done, kSenders * kEach);
  EXPECT_GT(borrowed.load(), 0);
  EXPECT_GT(sleeper.sleeps, 0);
}

TEST(UcxInbox, DoesNotLendThePlaceOfOneWhoIsAwakeOrCalled) {
  Inbox inbox;
  EXPECT_FALSE(inbox.borrow());
  ASSERT_TRUE(inbox.fall_asleep());
  ASSERT_TRUE(inbox.borrow());
  EXPECT_FALSE(inbox.borrow()) << "another has it";
  inbox.push([] {});
  inbox.give_back(false);
  EXPECT_FALSE(inbox.borrow()) << "what was pushed meanwhile comes first, and has woken it";
  inbox.awake();
  EXPECT_FALSE(inbox.fall_asleep()) << "something waits";
  EXPECT_EQ(inbox.take().size(), 1u);
  ASSERT_TRUE(inbox.fall_asleep());
  inbox.stop();
  EXPECT_FALSE(inbox.borrow());
}

}  // namespace
}  // namespace troupe::comm
