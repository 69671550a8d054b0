// The way to the progress thread, by threads that come while it works, falls asleep, sleeps and wakes up.
#include "comm/ucx/inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

namespace troupe::comm {
namespace {

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
