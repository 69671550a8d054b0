// Who has been silent for too long, in times that are passed in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "comm/ucx/pulse.h"

namespace troupe::comm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kMs = 1'000'000;

// Ticks at every interval until `until_ms`; who is silent at any of them.
std::vector<Rank> run_pulse(Pulse& pulse, std::int64_t from_ms, std::int64_t until_ms) {
  std::vector<Rank> all;
  for (std::int64_t now = from_ms * kMs; now <= until_ms * kMs; now += pulse.interval_ns()) {
    const auto silent = pulse.tick(now);
    all.insert(all.end(), silent.begin(), silent.end());
  }
  return all;
}

TEST(Pulse, FindsWhoIsSilentLongerThanTheTimeout) {
  Pulse pulse(3, 1000 * kMs, 1000 * kMs);
  pulse.start(0);
  pulse.heard(Rank{1}, 0);
  pulse.heard(Rank{2}, 0);
  EXPECT_THAT(run_pulse(pulse, 200, 600), IsEmpty());
  pulse.heard(Rank{2}, 600 * kMs);
  EXPECT_THAT(run_pulse(pulse, 800, 1200), ElementsAre(Rank{1}));
}

TEST(Pulse, DoesNotBlameOthersForAPauseOfItsOwn) {
  Pulse pulse(2, 1000 * kMs, 1000 * kMs);
  pulse.start(0);
  pulse.heard(Rank{1}, 0);
  EXPECT_THAT(pulse.tick(5000 * kMs), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 5200, 6000), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 6200, 6200), ElementsAre(Rank{1}));
}

TEST(Pulse, APauseOfItsOwnIsNoPartOfTheTimeOfTheFirstContact) {
  Pulse pulse(2, 1000 * kMs, 3000 * kMs);
  pulse.start(0);
  pulse.watch(Rank{1}, 0);
  EXPECT_THAT(pulse.tick(5000 * kMs), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 5200, 8000), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 8200, 8200), ElementsAre(Rank{1}));
}

TEST(Pulse, WaitsLongerForTheFirstContact) {
  Pulse pulse(2, 1000 * kMs, 3000 * kMs);
  pulse.start(0);
  pulse.watch(Rank{1}, 0);
  EXPECT_THAT(run_pulse(pulse, 200, 3000), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 3200, 3200), ElementsAre(Rank{1}));
}

TEST(Pulse, IgnoresWhoIsNotWatchedOrForgotten) {
  Pulse pulse(3, 1000 * kMs, 1000 * kMs);
  pulse.start(0);
  pulse.heard(Rank{1}, 0);
  pulse.forget(Rank{1});
  pulse.heard(Rank{1}, 0);
  EXPECT_THAT(run_pulse(pulse, 200, 9000), IsEmpty());
}

TEST(Pulse, TicksAFifthOfTheTimeoutWithinItsLimits) {
  const auto interval_ms = [](std::int64_t timeout_ms) { return Pulse(2, timeout_ms * kMs, timeout_ms * kMs).interval_ns() / kMs; };
  EXPECT_EQ(interval_ms(1'000), 200);
  EXPECT_EQ(interval_ms(60'000), 1'000);
  EXPECT_EQ(interval_ms(20), 10);
}

TEST(Pulse, OneThatWasHeardHasTheTimeoutAndNotTheTimeOfTheFirstContact) {
  Pulse pulse(2, 1000 * kMs, 3000 * kMs);
  pulse.start(0);
  pulse.watch(Rank{0}, 0);
  EXPECT_THAT(run_pulse(pulse, 200, 400), IsEmpty());
  pulse.heard(Rank{0}, 400 * kMs);
  EXPECT_THAT(run_pulse(pulse, 600, 1400), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 1600, 1600), ElementsAre(Rank{0}));
}

TEST(Pulse, TheFirstContactMayTakeAsLongAsAnyOther) {
  Pulse pulse(2, 1000 * kMs, 10 * kMs);
  pulse.start(0);
  pulse.watch(Rank{1}, 0);
  EXPECT_THAT(run_pulse(pulse, 200, 1000), IsEmpty());
  EXPECT_THAT(run_pulse(pulse, 1200, 1200), ElementsAre(Rank{1}));
}

// Connecting again, or for another lane, is no sign of life.
TEST(Pulse, ToWatchOneAgainIsNotToHearOfIt) {
  Pulse pulse(2, 1000 * kMs, 1000 * kMs);
  pulse.start(0);
  pulse.watch(Rank{1}, 0);
  EXPECT_THAT(run_pulse(pulse, 200, 800), IsEmpty());
  pulse.watch(Rank{1}, 800 * kMs);
  EXPECT_THAT(run_pulse(pulse, 1000, 1200), ElementsAre(Rank{1}));
  pulse.forget(Rank{1});
  pulse.watch(Rank{1}, 1200 * kMs);
  EXPECT_THAT(run_pulse(pulse, 1400, 9000), IsEmpty());
}

// Two intervals between ticks are a busy machine; only more is a pause. The first tick is measured from the start.
TEST(Pulse, TakesItsOwnTicksForLateAfterTwoIntervals) {
  constexpr std::int64_t kStart = 1'000'000;
  Pulse pulse(2, 1000 * kMs, 1000 * kMs);
  pulse.start(kStart * kMs);
  pulse.heard(Rank{1}, kStart * kMs);
  for (const std::int64_t ms : {400, 800}) EXPECT_THAT(pulse.tick((kStart + ms) * kMs), IsEmpty());
  EXPECT_THAT(pulse.tick((kStart + 1200) * kMs), ElementsAre(Rank{1}));
  EXPECT_THAT(pulse.tick((kStart + 1601) * kMs), IsEmpty()) << "now every count starts again";
}

}  // namespace
}  // namespace troupe::comm
