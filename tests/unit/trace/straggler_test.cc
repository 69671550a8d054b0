#include "runtime/trace/straggler.h"

#include <gtest/gtest.h>

namespace troupe::trace {
namespace {

RankReport computing(int rank, const std::string& stage, double step_busy_s, double busy_ratio = 0.8) {
  RankReport report{.rank = rank};
  report.snapshot.actors.push_back({.name = stage});
  report.snapshot.actors.push_back({.name = "stage-9@3"});  // stands for another rank's
  report.streams.push_back({.name = "storage", .kind = "storage", .step_busy_ns = 900'000'000LL * (rank + 1)});
  report.streams.push_back({.name = "compute", .kind = "compute", .busy_ratio = busy_ratio, .step_busy_ns = static_cast<std::int64_t>(step_busy_s * 1e9)});
  return report;
}

TEST(Straggler, IsWhoComputesLongerThanTheMedianOfTheOthers) {
  const std::vector<RankReport> ranks{computing(0, "stage-0", 1.02), computing(1, "stage-0", 1.0), computing(2, "stage-0", 1.3),
                                      computing(3, "stage-0", 0.98)};
  const auto found = find_straggler(ranks);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_DOUBLE_EQ(found->median_s, 1.0);
  EXPECT_DOUBLE_EQ(found->ratio(), 1.3);
}

TEST(Straggler, IsNobodyWhereAllAreAlike) {
  const std::vector<RankReport> ranks{computing(0, "stage-0", 1.05), computing(1, "stage-0", 1.0)};
  EXPECT_FALSE(find_straggler(ranks));
}

TEST(Straggler, IsNobodyWhoHasOtherWorkOrHasNotSaid) {
  RankReport silent{.rank = 3, .answered = false};
  const std::vector<RankReport> ranks{computing(0, "stage-0", 1.0), computing(1, "stage-1", 2.0), computing(2, "stage-0", 0), silent};
  EXPECT_FALSE(find_straggler(ranks));
}

// On a slow link nobody computes much; a few milliseconds more are no reason.
TEST(Straggler, IsNobodyWhereComputingIsNotWhatTakesTheTime) {
  const std::vector<RankReport> ranks{computing(0, "stage-0", 0.003, 0.04), computing(1, "stage-0", 0.001, 0.01)};
  EXPECT_FALSE(find_straggler(ranks));
}

}  // namespace
}  // namespace troupe::trace
