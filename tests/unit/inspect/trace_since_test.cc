#include "tools/troupe/trace_since.h"

#include <gtest/gtest.h>

namespace troupe::tool {
namespace {

// Of the asker, whose steady clock began elsewhere.
constexpr double kUnixS = 1'800'000'000, kNowS = 50;
constexpr double kOverlapS = TraceSince::kOverlapS;

// What a rank whose host's clock is `ahead_s` ahead still gives, when it is asked `later_s` after the look before: rank_answers.cc.
bool leaves_nothing_out(const TraceSince& since, double ahead_s, double later_s) {
  return since.unix_s(kNowS + later_s).value() <= kUnixS + ahead_s;
}

TEST(TraceSince, GoesOnWhereTheLastLookEnded) {
  TraceSince since;
  EXPECT_FALSE(since.unix_s(kNowS).has_value());
  since.saw(0, kUnixS, kNowS);
  EXPECT_DOUBLE_EQ(since.unix_s(kNowS + 0.1).value(), kUnixS - kOverlapS);
  since.saw(0, kUnixS + 0.1, kNowS + 0.1);
  EXPECT_DOUBLE_EQ(since.unix_s(kNowS + 0.2).value(), kUnixS + 0.1 - kOverlapS);
}

TEST(TraceSince, LeavesNothingOutWhateverTheHostsClockShows) {
  for (const double ahead_s : {-3600.0, -5.0, -2.1, 0.0, 2.1, 5.0, 3600.0}) {
    TraceSince since;
    since.saw(0, kUnixS, kNowS);
    since.saw(1, kUnixS + ahead_s, kNowS);
    EXPECT_TRUE(leaves_nothing_out(since, 0, 0.1)) << ahead_s;
    EXPECT_TRUE(leaves_nothing_out(since, ahead_s, 0.1)) << ahead_s;
  }
}

// Else one that is stopped would make the others say more and more.
TEST(TraceSince, DoesNotGoBackForARankThatIsSilent) {
  TraceSince since;
  since.saw(0, kUnixS, kNowS);
  since.saw(1, kUnixS, kNowS);
  for (double later_s = 0.1; later_s < 3; later_s += 0.1) since.saw(0, kUnixS + later_s, kNowS + later_s);
  EXPECT_GT(since.unix_s(kNowS + 3).value(), kUnixS + 2.8);
  EXPECT_FALSE(since.unix_s(kNowS + 10).has_value());
}

// Before 1970: the question takes no such time.
TEST(TraceSince, IsNoTimeBelowZero) {
  TraceSince since;
  since.saw(0, 0, kNowS);
  EXPECT_EQ(since.unix_s(kNowS).value(), 0);
}

}  // namespace
}  // namespace troupe::tool
