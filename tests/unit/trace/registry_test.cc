#include "runtime/trace/registry.h"

#include <gtest/gtest.h>

#include "runtime/base/check.h"

namespace troupe::trace {
namespace {

struct RegistryTest : testing::Test {
  VirtualClock clock;
  ProbeRegistry registry{[](std::uint32_t type) { return "Type" + std::to_string(type); }, &clock};

  std::shared_ptr<Probe> add(const std::string& name) {
    auto probe = std::make_shared<Probe>(name, registry.ticks());
    registry.add(probe);
    return probe;
  }
};

TEST_F(RegistryTest, ShowsTheLivingInTheOrderInWhichTheyCame) {
  add("b");
  add("a");
  const Snapshot snapshot = registry.snapshot();
  ASSERT_EQ(snapshot.actors.size(), 2u);
  EXPECT_EQ(snapshot.actors[0].name, "b");
  EXPECT_EQ(snapshot.actors[1].name, "a");
  EXPECT_NE(registry.find("a"), nullptr);
  EXPECT_EQ(registry.find("c"), nullptr);
}

TEST_F(RegistryTest, KeepsATombstoneWithTheCauseAndCountsOn) {
  const auto probe = add("a");
  clock.advance(5);
  registry.bury(*probe, "INTERNAL: broke", {"b: lost", "a: broke"});
  probe->sent(1);
  probe->dead_letter(1, DeadReason::kAfterEnd);
  const Snapshot snapshot = registry.snapshot();
  EXPECT_TRUE(snapshot.actors.empty());
  ASSERT_EQ(snapshot.tombstones.size(), 1u);
  EXPECT_EQ(snapshot.tombstones[0].name, "a");
  EXPECT_EQ(snapshot.tombstones[0].cause, "INTERNAL: broke");
  EXPECT_EQ(snapshot.tombstones[0].chain.front(), "b: lost");
  EXPECT_EQ(snapshot.tombstones[0].at_ns, 5);
  ASSERT_EQ(snapshot.tombstones[0].dead_letters.size(), 1u);
  EXPECT_EQ(snapshot.tombstones[0].dead, 1);
}

// CASES A14: the dead do not pile up.
TEST_F(RegistryTest, KeepsABoundedNumberOfTombstones) {
  for (std::size_t i = 0; i < ProbeRegistry::kTombstones + 10; ++i)
    registry.bury(*add(std::to_string(i)), "OK", {});
  const Snapshot snapshot = registry.snapshot();
  EXPECT_EQ(snapshot.tombstones.size(), ProbeRegistry::kTombstones);
  EXPECT_EQ(snapshot.tombstones_dropped, 10);
  EXPECT_EQ(snapshot.tombstones.front().name, "10");
  EXPECT_EQ(registry.live(), 0u);
}

TEST_F(RegistryTest, InternsEachTextOnce) {
  const Name one = registry.intern("edge a"), two = registry.intern("edge b");
  EXPECT_EQ(registry.intern("edge a").id, one.id);
  EXPECT_NE(one.id, two.id);
  EXPECT_EQ(registry.texts().name(two), "edge b");
  EXPECT_EQ(registry.intern("").id, 0u);
}

TEST_F(RegistryTest, ShowsTheEdges) {
  auto edge = std::make_shared<EdgeProbe>();
  edge->name = "a.out -> b.in";
  edge->capacity = 3;
  edge->free = 1;
  edge->taken = 5;
  edge->sent = 4;
  edge->delivered = 4;
  edge->returned = 3;
  edge->reclaimed = 3;
  registry.add(edge);
  const EdgeRow row = registry.snapshot().edges.at(0);
  EXPECT_EQ(row.free + row.in_flight, row.capacity);
  EXPECT_EQ(row.queued(), 0);
  EXPECT_EQ(row.held(), 1);
}

void fail_with_a_registry() {
  ProbeRegistry registry([](std::uint32_t) { return "StepDone"; }, nullptr);
  auto probe = std::make_shared<Probe>("ledger", registry.ticks());
  registry.add(probe);
  probe->sent(1);
  const int slot = probe->add_type(1);
  probe->begin_handling(slot);
  probe->end_handling();
  TROUPE_CHECK(false) << "broken";
}

TEST(Registry, SaysTheLastEventsOfEachActorWhenACheckFails) {
  EXPECT_DEATH(fail_with_a_registry(), "check failed.*broken\n(.*\n)*actor 'ledger'.*handled 1\n.*StepDone");
}

}  // namespace
}  // namespace troupe::trace
