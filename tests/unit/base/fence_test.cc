#include "runtime/base/fence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace troupe {
namespace {

// Soon, on another core; else where that one waits for this core.
void wait_until(const std::atomic<int>& at, int round) {
  for (int spins = 0; at < round; ++spins) {
    if (spins > 10'000) std::this_thread::yield();
  }
}

// Both write, then read what the other writes: without a fence both may miss it.
TEST(FenceTest, OneOfTwoSeesTheOther) {
  std::atomic<int> often_at{0}, seldom_at{0};      // rounds that each has begun
  alignas(64) std::atomic<int> often{0}, seldom{0};
  alignas(64) std::atomic<int> seen_by_often{0};
  constexpr int kRounds = 20'000;
  std::thread other([&] {
    for (int round = 1; round <= kRounds; ++round) {
      often_at = round;
      wait_until(seldom_at, round);
      often.store(round, std::memory_order_relaxed);
      light_fence();
      seen_by_often.store(seldom.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    often_at = kRounds + 1;
  });
  int missed_by_both = 0;
  for (int round = 1; round <= kRounds; ++round) {
    wait_until(often_at, round);
    seldom_at = round;
    seldom.store(round, std::memory_order_relaxed);
    heavy_fence();
    const bool sees = often.load(std::memory_order_relaxed) == round;
    wait_until(often_at, round + 1);
    if (!sees && seen_by_often.load(std::memory_order_relaxed) != round) ++missed_by_both;
  }
  other.join();
  EXPECT_EQ(missed_by_both, 0);
}

}  // namespace
}  // namespace troupe
