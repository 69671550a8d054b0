#include "models/data/batch_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <vector>

namespace troupe::data {
namespace {

std::vector<SampleId> step_of(const BatchLayout& layout, std::int64_t cursor) {
  std::vector<SampleId> ids;
  for (std::int64_t replica = 0; replica < layout.dp(); ++replica) {
    for (int micro = 0; micro < layout.micro_batches(); ++micro) {
      for (std::int64_t row = 0; row < layout.micro_batch(); ++row) {
        ids.push_back(layout.sample(cursor, MicroBatchId(micro), replica, row));
      }
    }
  }
  return ids;
}

// CASES T06.
TEST(BatchLayout, UsesEachSampleOnceForEveryDp) {
  for (const std::int64_t dp : {1, 2, 3, 4, 6, 12}) {
    for (const std::int64_t micro_batch : {1, 2}) {
      const auto layout = *BatchLayout::create(24, micro_batch, dp);
      std::map<SampleId, int> used;
      for (std::int64_t step = 1; step <= 5; ++step) {
        for (const auto id : step_of(layout, layout.cursor(StepId(step)))) ++used[id];
      }
      ASSERT_EQ(used.size(), 120u) << "dp " << dp;
      EXPECT_EQ(used.begin()->first, SampleId(0));
      EXPECT_EQ(used.rbegin()->first, SampleId(119));
    }
  }
}

// CASES T06: 4 -> 2 and 2 -> 4 replicas between steps; nothing twice, nothing left out.
TEST(BatchLayout, ResumesOnAnotherDp) {
  std::map<SampleId, int> used;
  std::int64_t cursor = 0;
  for (const std::int64_t dp : {4, 2, 4, 1, 8}) {
    const auto layout = *BatchLayout::create(16, 2, dp);
    for (int step = 0; step < 3; ++step, cursor += layout.global_batch()) {
      for (const auto id : step_of(layout, cursor)) ++used[id];
    }
  }
  ASSERT_EQ(used.size(), static_cast<std::size_t>(cursor));
  for (const auto& [id, times] : used) EXPECT_EQ(times, 1) << id;
  EXPECT_EQ(used.rbegin()->first, SampleId(cursor - 1));
}

// Which samples a step has does not depend on how it is cut.
TEST(BatchLayout, GivesAStepTheSameSamplesForEveryCut) {
  auto sorted = [](std::int64_t micro_batch, std::int64_t dp) {
    auto ids = step_of(*BatchLayout::create(24, micro_batch, dp), 1000);
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  EXPECT_EQ(sorted(1, 1), sorted(3, 4));
  EXPECT_EQ(sorted(24, 1), sorted(1, 24));
}

// Megatron's order: replica r takes [r * mb, (r + 1) * mb) of each run of mb * dp samples.
TEST(BatchLayout, OrdersSlotsByMicroBatchThenReplica) {
  const auto layout = *BatchLayout::create(16, 2, 4);
  EXPECT_EQ(layout.micro_batches(), 2);
  EXPECT_EQ(layout.slots(), 8);
  EXPECT_EQ(layout.sample(100, MicroBatchId(0), 0, 0), SampleId(100));
  EXPECT_EQ(layout.sample(100, MicroBatchId(0), 3, 1), SampleId(107));
  EXPECT_EQ(layout.sample(100, MicroBatchId(1), 0, 0), SampleId(108));
  EXPECT_EQ(layout.sample(100, MicroBatchId(1), 3, 1), SampleId(115));
}

TEST(BatchLayout, RefusesABatchThatDoesNotDivide) {
  const auto layout = BatchLayout::create(20, 2, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(layout.status()));
  EXPECT_THAT(std::string(layout.status().message()),
              testing::HasSubstr("20 is not a multiple of micro-batch 2 x 4 replicas"));
  EXPECT_THAT(std::string(layout.status().message()), testing::HasSubstr("below and above: 16, 24"));
  EXPECT_THAT(std::string(BatchLayout::create(4, 2, 4).status().message()), testing::HasSubstr(": 8, 8"));
  EXPECT_FALSE(BatchLayout::create(0, 1, 1).ok());
  EXPECT_FALSE(BatchLayout::create(8, 0, 1).ok());
  EXPECT_FALSE(BatchLayout::create(8, 1, -1).ok());
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(BatchLayout::create(8, kMost, kMost).ok());
}

TEST(BatchLayoutDeathTest, RefusesPlacesOutside) {
  const auto layout = *BatchLayout::create(16, 2, 4);
  EXPECT_DEATH(layout.sample(0, MicroBatchId(2), 0, 0), "micro-batch 2 of 2");
  EXPECT_DEATH(layout.sample(0, MicroBatchId(0), 4, 0), "replica 4 of 4");
  EXPECT_DEATH(layout.sample(0, MicroBatchId(0), 0, 2), "row 2");
}

}  // namespace
}  // namespace troupe::data
