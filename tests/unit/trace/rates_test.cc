#include "runtime/trace/rates.h"

#include <gtest/gtest.h>

namespace troupe::trace {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// A mailbox that grows by 2 a second and an edge that carries 10 bytes a millisecond, since time 0.
Snapshot steady_at(std::int64_t ms) {
  Snapshot snapshot;
  snapshot.at_ns = ms * kMs;
  snapshot.actors.push_back({.name = "a", .depth = ms / 500});
  snapshot.edges.push_back({.name = "e", .bytes = ms * 10});
  return snapshot;
}

TEST(Rates, LookersDoNotDisturbEachOther) {
  Rates rates(0);
  const auto look = [&rates](std::int64_t ms) {
    Snapshot snapshot = steady_at(ms);
    rates.set(snapshot.actors, {7}, snapshot.at_ns);
    rates.set(snapshot.edges, snapshot.at_ns);
    return snapshot;
  };
  for (std::int64_t ms = 1000; ms < 20'000; ms += 10) {  // one looks all the time, another now and then
    const Snapshot often = look(ms);
    ASSERT_DOUBLE_EQ(often.edges[0].bytes_per_s, 10'000) << ms;
    ASSERT_NEAR(often.actors[0].growth_per_s, 2, 1.01) << ms;  // whole messages over a second or more
    if (ms % 70 == 0) {
      ASSERT_DOUBLE_EQ(look(ms).edges[0].bytes_per_s, 10'000) << ms;
    }
  }
  EXPECT_DOUBLE_EQ(look(60'000).actors[0].growth_per_s, 2);  // over all the time that nobody looked
}

TEST(Rates, TheFirstLookIsSinceTheStart) {
  Rates rates(5'000 * kMs);
  Snapshot snapshot = steady_at(9'000);
  rates.set(snapshot.edges, snapshot.at_ns);
  EXPECT_DOUBLE_EQ(snapshot.edges[0].bytes_per_s, 90'000 / 4.0);
  Rates hasty(5'000 * kMs);
  snapshot = steady_at(5'001);
  hasty.set(snapshot.edges, snapshot.at_ns);
  EXPECT_DOUBLE_EQ(snapshot.edges[0].bytes_per_s, 50'010);  // not a thousand times that
}

TEST(Rates, AnActorThatIsNewIsNotTakenForTheOneThatWasThere) {
  Rates rates(0);
  Snapshot snapshot;
  snapshot.at_ns = 2'000 * kMs;
  snapshot.actors = {{.name = "a", .depth = 100}, {.name = "b", .depth = 50}};
  rates.set(snapshot.actors, {1, 2}, snapshot.at_ns);
  snapshot.at_ns = 4'000 * kMs;
  snapshot.actors = {{.name = "b", .depth = 40}, {.name = "c", .depth = 6}};
  rates.set(snapshot.actors, {2, 3}, snapshot.at_ns);
  EXPECT_DOUBLE_EQ(snapshot.actors[0].growth_per_s, -5);
  EXPECT_DOUBLE_EQ(snapshot.actors[1].growth_per_s, 3);
}

TEST(Rates, WhoLooksAtActorsOnlyChangesNothingForEdges) {
  Rates rates(0);
  Snapshot snapshot = steady_at(2'000);
  rates.set(snapshot.edges, snapshot.at_ns);
  snapshot = steady_at(3'500);
  rates.set(snapshot.actors, {7}, snapshot.at_ns);
  snapshot = steady_at(4'600);  // more than a second after the actors were looked at
  rates.set(snapshot.edges, snapshot.at_ns);
  EXPECT_DOUBLE_EQ(snapshot.edges[0].bytes_per_s, 10'000);
}

}  // namespace
}  // namespace troupe::trace
