#include "runtime/trace/handled_counts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>

namespace troupe::trace {

// The middle of a change, in which its writer is stopped: one message is in its kind and not in the histograms.
struct ChangeOfCounts {
  static void begin(HandledCounts& counts, HandledCounts::Kind& kind) {
    bump(counts.version_, 1);
    bump(kind.handled, 1);
  }
  static void end(HandledCounts& counts) {
    bump(counts.in_handler_[0], 1);
    bump(counts.in_mailbox_[0], 1);
    bump(counts.handled_, 1);
    bump(counts.waits_counted_, 1);
    bump(counts.version_, 1);
  }
};

namespace {

using Clock = std::chrono::steady_clock;

struct HandledCountsTest : testing::Test {
  const Ticks ticks;
  const std::unique_ptr<HandledCounts> counts = std::make_unique<HandledCounts>();
  HandledCounts::Kind& kind = counts->kind(counts->add_type(7));

  ActorRow read() const {
    ActorRow row;
    counts->read(row, ticks, [](std::uint32_t type) { return "Type" + std::to_string(type); }, Detail::kAll);
    return row;
  }
  static std::int64_t sum(const HistogramRow& times) { return std::accumulate(times.counts.begin(), times.counts.end(), std::int64_t{0}); }
};

TEST_F(HandledCountsTest, WaitsForAChangeButNotForEver) {
  for (int i = 0; i < 5; ++i) counts->add(kind, 0, 0, 0, ticks);
  for (const bool ends : {true, false}) {
    ChangeOfCounts::begin(*counts, kind);
    const auto begin = Clock::now();
    std::thread writer([&] {
      if (!ends) return;
      std::this_thread::sleep_for(HandledCounts::kPatience / 8);
      ChangeOfCounts::end(*counts);
    });
    const ActorRow row = read();
    const auto took = Clock::now() - begin;
    writer.join();
    if (ends) {
      EXPECT_EQ(row.handled, 6);
      EXPECT_EQ(sum(row.in_handler), 6);
      EXPECT_EQ(sum(row.in_mailbox), 6);
    } else {
      EXPECT_GE(took, HandledCounts::kPatience);
      EXPECT_LT(took, std::chrono::seconds(5)) << "it looks in vain, but it looks";
      EXPECT_GE(row.handled, 6);
    }
  }
}

TEST_F(HandledCountsTest, AddsUpWhatIsReadAgain) {
  counts->add(kind, 100, 200, 3, ticks);
  counts->expect_wait(50, 1000, ticks);
  counts->add_untimed(kind);
  ActorRow row = read();
  counts->read(row, ticks, [](std::uint32_t) { return "Again"; }, Detail::kAll);
  EXPECT_EQ(row.handled, 2);
  ASSERT_EQ(row.messages.size(), 1u);
  EXPECT_EQ(row.messages[0].handling_ns, ticks.ns(400));
  EXPECT_EQ(row.handling_ns, ticks.ns(400));
  EXPECT_EQ(row.in_mailbox.counts.size(), row.in_mailbox.bounds_s.size() + 1);
}

TEST_F(HandledCountsTest, HasPlaceForSoManyTypes) {
  for (int i = 1; i < HandledCounts::kTypes; ++i) EXPECT_EQ(counts->add_type(100u + static_cast<std::uint32_t>(i)), i);
  EXPECT_EQ(counts->add_type(500), -1);
}

// A wait is in the bucket of its time, whatever was usual before it.
TEST_F(HandledCountsTest, CountsTheWaitsOfTheUntimedWhereTheyBelong) {
  std::array<std::int64_t, Ticks::kBounds + 1> expected{};
  counts->add(kind, 0, 1, 200, ticks);
  ++expected[0];
  for (int i = 0; i < 2 * Ticks::kBounds + 1; ++i) {
    const std::uint64_t waited = ticks.in_ticks((std::int64_t{250} << i / 2) + (i % 2 == 0 ? 0 : 200));
    counts->expect_wait(waited, ~std::uint64_t{0}, ticks);
    counts->add_untimed(kind);
    ++expected[static_cast<std::size_t>(ticks.bucket(waited))];
    counts->expect_wait(waited, ~std::uint64_t{0}, ticks);
    counts->add_untimed(kind);
    ++expected[static_cast<std::size_t>(ticks.bucket(waited))];
  }
  const ActorRow row = read();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(row.in_mailbox.counts[i], expected[i]) << i;
}

}  // namespace
}  // namespace troupe::trace
