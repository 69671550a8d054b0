#include "tools/troupe/trace_pace.h"

#include <gtest/gtest.h>

namespace troupe::tool {
namespace {

// A ring of 64 events, of which so many come a millisecond.
struct Ring {
  double events_per_ms = 0;
  double new_after(std::chrono::milliseconds pause) const { return std::min(1.0, events_per_ms * static_cast<double>(pause.count()) / 64); }
};

TEST(TracePace, FindsTheOneAtWhichNothingIsLost) {
  for (const double events_per_ms : {0.01, 0.4, 1.0, 2.0, 6.0}) {
    TracePace pace;
    Ring ring{events_per_ms};
    auto pause = pace.next(0);
    for (int look = 0; look < 40; ++look) pause = pace.next(ring.new_after(pause));
    for (int look = 0; look < 40; ++look) {
      pause = pace.next(ring.new_after(pause));
      EXPECT_LE(ring.new_after(pause), 0.5) << events_per_ms;
    }
    EXPECT_TRUE(pause == TracePace::kSeldom || ring.new_after(pause) > 0.1) << events_per_ms << " a ms, and asks every " << pause.count() << " ms";
  }
}

TEST(TracePace, FollowsAJobThatBecomesBusyWithinAFewLooks) {
  TracePace pace;
  for (int look = 0; look < 100; ++look) pace.next(0);
  EXPECT_EQ(pace.next(0), TracePace::kSeldom);
  int looks = 0;
  while (pace.next(1) > TracePace::kOften && looks < 100) ++looks;
  EXPECT_LE(looks, 5);
  EXPECT_EQ(pace.next(1), TracePace::kOften);
}

}  // namespace
}  // namespace troupe::tool
