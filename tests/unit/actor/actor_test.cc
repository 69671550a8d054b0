#include "runtime/actor/actor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <optional>
#include <stdexcept>

#include "runtime/actor/sim_world.h"

namespace troupe::actor {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

struct Note {
  int value;
};
struct Urgent {
  int value;
};
struct Unknown {};
struct Explode {};
struct Finish {};
struct Break {};
struct Watch {
  Ref whom;
};

class Scribe : public Actor {
 public:
  Scribe() {
    on(&Scribe::note);
    on(&Scribe::urgent);
    on(&Scribe::explode);
    on(&Scribe::finish);
    on(&Scribe::break_down);
    on(&Scribe::watch);
  }
  void started() override { written.push_back("started"); }
  void down(const Down& down) override {
    written.push_back("down " + down.actor.name() + " " + std::string(down.cause.message()));
    downs.push_back(down);
  }
  void note(Note note) { written.push_back("note " + std::to_string(note.value)); }
  void urgent(const Urgent& urgent) { written.push_back("urgent " + std::to_string(urgent.value)); }
  void explode(Explode) { throw std::runtime_error("boom"); }
  void finish(Finish) { stop(); }
  void break_down(Break&&) { fail(Status(absl::StatusCode::kDataLoss, "torn")); }
  void watch(Watch watch) { monitor(watch.whom); }

  std::vector<std::string> written;
  std::vector<Down> downs;
};

struct ActorTest : testing::Test {
  SimWorld world{11};
  Scribe& scribe = world.system().add<Scribe>("scribe");
  Scribe& other = world.system().add<Scribe>("other");

  trace::Tombstone tombstone(const std::string& name) {
    for (auto& stone : world.system().probes().snapshot().tombstones) {
      if (stone.name == name) return stone;
    }
    ADD_FAILURE() << "no tombstone of " << name;
    return {};
  }
};

TEST_F(ActorTest, StartsBeforeItsFirstMessage) {
  world.start();
  scribe.self().send(Note{1});
  scribe.self().send(Note{2});
  ASSERT_TRUE(world.run().ok());
  EXPECT_THAT(scribe.written, ElementsAre("started", "note 1", "note 2"));
}

TEST_F(ActorTest, IsStartedAlsoByAMessageOfAnEagerNeighbour) {
  class Eager final : public Actor {
   public:
    explicit Eager(Ref to) : to_(std::move(to)) {}
    void started() override { send(to_, Urgent{5}, Lane::kUrgent); }
    Ref to_;
  };
  world.system().add<Eager>("eager", scribe.self());
  world.start();
  ASSERT_TRUE(world.run().ok());
  EXPECT_THAT(scribe.written, ElementsAre("started", "urgent 5"));
}

// CASES A05: control messages go first and are never dropped for data.
TEST_F(ActorTest, TakesUrgentMessagesFirst) {
  world.start();
  ASSERT_TRUE(world.run().ok());
  scribe.written.clear();
  for (int i = 0; i < 100; ++i) scribe.self().send(Note{i});
  scribe.self().send(Urgent{1}, Lane::kUrgent);
  world.step();
  EXPECT_THAT(scribe.written, ElementsAre("urgent 1"));
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(scribe.written.size(), 101u);
}

TEST(Actor, NeverStarvesTheNormalLane) {
  class Both final : public Actor {
   public:
    Both() {
      on(&Both::note);
      on(&Both::urgent);
    }
    void started() override {
      send(self(), Note{1});
      for (int i = 0; i < 100; ++i) send(self(), Urgent{i}, Lane::kUrgent);
    }
    void note(Note) { urgent_before_note = urgent_seen; }
    void urgent(Urgent) {
      if (++urgent_seen == 100) stop();
    }
    int urgent_seen = 0, urgent_before_note = -1;
  };
  System system({.threads = 1});
  auto& both = system.add<Both>("both");
  system.start();
  ASSERT_TRUE(system.wait().ok());
  EXPECT_GE(both.urgent_before_note, 0) << "the note never came";
  EXPECT_LT(both.urgent_before_note, 50);
}

// CASES A11: a message without handler is not swallowed.
TEST_F(ActorTest, FailsAndNamesTheTypeOfAMessageWithoutHandler) {
  world.start();
  scribe.self().send(Unknown{});
  const Status status = world.run();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("actor 'scribe' failed: got message 'Unknown' and has no handler"));
  const auto stone = tombstone("scribe");
  ASSERT_FALSE(stone.dead_letters.empty());
  EXPECT_EQ(stone.dead_letters[0].type, "Unknown");
  EXPECT_EQ(stone.dead_letters[0].reason, trace::DeadReason::kNoHandler);
}

TEST_F(ActorTest, TurnsAnExceptionIntoItsFailure) {
  world.start();
  scribe.self().send(Explode{});
  const Status status = world.run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("actor 'scribe' failed: exception in the handler of Explode: boom"));
}

TEST_F(ActorTest, OneDownForOneMonitor) {
  world.start();
  scribe.self().send(Watch{other.self()});
  ASSERT_TRUE(world.run().ok());
  EXPECT_TRUE(scribe.downs.empty());
  other.self().send(Finish{});
  ASSERT_TRUE(world.run().ok());
  ASSERT_EQ(scribe.downs.size(), 1u);
  EXPECT_TRUE(scribe.downs[0].cause.ok());
  EXPECT_EQ(scribe.downs[0].actor, other.self());
}

TEST_F(ActorTest, MonitoringTheDeadGivesDownAtOnce) {
  world.start();
  other.self().send(Finish{});
  ASSERT_TRUE(world.run().ok());
  scribe.self().send(Watch{other.self()});
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(scribe.downs.size(), 1u);
}

TEST(Actor, TellsTheCauseOfADown) {
  SimWorld world(2, 1, {.stop_on_failure = false});
  auto& scribe = world.system().add<Scribe>("scribe");
  auto& other = world.system().add<Scribe>("other");
  world.start();
  scribe.self().send(Watch{other.self()});
  world.settle();
  other.self().send(Break{});
  world.settle();
  ASSERT_EQ(scribe.downs.size(), 1u);
  EXPECT_EQ(scribe.downs[0].cause.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(scribe.downs[0].chain, ElementsAre("other: torn"));
}

// CASES A12: every message is handled, in a mailbox, or a counted dead letter.
TEST_F(ActorTest, CountsWhatItLeftBehindAndWhatCameLater) {
  world.start();
  scribe.self().send(Note{1});
  scribe.self().send(Finish{});
  for (int i = 0; i < 5; ++i) scribe.self().send(Note{2});
  ASSERT_TRUE(world.run().ok());
  for (int i = 0; i < 3; ++i) scribe.self().send(Note{3});
  const auto stone = tombstone("scribe");
  EXPECT_EQ(stone.sent, stone.handled + stone.dead);
  EXPECT_EQ(stone.dead, 8);
  ASSERT_EQ(stone.dead_letters.size(), 2u);
  EXPECT_EQ(stone.dead_letters[0].reason, trace::DeadReason::kLeftInMailbox);
  EXPECT_EQ(stone.dead_letters[0].count, 5);
  EXPECT_EQ(stone.dead_letters[1].reason, trace::DeadReason::kAfterEnd);
  EXPECT_EQ(stone.dead_letters[1].count, 3);
}

class Timed final : public Actor {
 public:
  Timed() { on(&Timed::note); }
  void started() override {
    send_after(30ms, Note{3});
    send_after(10ms, Note{1});
    send_after(20ms, Note{2});
  }
  void note(Note note) { at.emplace_back(note.value, now_ns()); }
  std::vector<std::pair<int, std::int64_t>> at;
};

TEST(Actor, SendsLaterInVirtualTime) {
  SimWorld world(5);
  auto& timed = world.system().add<Timed>("timed");
  world.start();
  ASSERT_TRUE(world.run().ok());
  EXPECT_THAT(timed.at,
              ElementsAre(std::pair(1, 10'000'000), std::pair(2, 20'000'000), std::pair(3, 30'000'000)));
}

TEST(Actor, CountsATimerThatNeverRang) {
  std::shared_ptr<const trace::Probe> probe;
  trace::Texts texts;
  {
    SimWorld world(5);
    auto& timed = world.system().add<Timed>("timed");
    world.start();
    (void)world.run(1'000, [&] { return !timed.at.empty(); });
    probe = world.system().probes().find("timed");
  }
  EXPECT_EQ(probe->sent_count(), probe->handled_count() + probe->dead_count());
  EXPECT_GE(probe->dead_count(), 2);
}

TEST(Actor, RefusesASecondHandlerForOneType) {
  class Twice final : public Actor {
   public:
    Twice() {
      on(&Twice::one);
      on(&Twice::two);
    }
    void one(Note) {}
    void two(Note) {}
  };
  EXPECT_DEATH(Twice(), "a second handler for message 'Note'");
}

TEST_F(ActorTest, MayNotBeWrittenToBeforeTheStart) {
  EXPECT_DEATH(scribe.self().send(Note{1}), "message 'Note' to actor 'scribe' before System::start");
}

TEST_F(ActorTest, MayNotStopOutsideItsHandlers) {
  struct Open : Actor {
    using Actor::stop;
  };
  auto& open = world.system().add<Open>("open");
  world.start();
  EXPECT_DEATH(open.stop(), "stop\\(\\) of actor 'open' outside its handlers");
}

TEST(Ref, OutlivesItsSystem) {
  std::optional<Ref> ref, never_started;
  {
    SimWorld world(1);
    ref = world.system().add<Scribe>("scribe").self();
    world.start();
    world.settle();
  }
  {
    System system;
    never_started = system.add<Scribe>("idle").self();
  }
  for (const auto& each : {*ref, *never_started}) {
    EXPECT_TRUE(each.ended());
    each.send(Note{1});
  }
  EXPECT_EQ(ref->name(), "scribe");
}

TEST(Ref, IsEmptyUntilAssigned) {
  const Ref ref;
  EXPECT_FALSE(ref);
  EXPECT_DEATH(ref.send(Note{1}), "an empty Ref");
}

// CASES A06: the cost of a message does not depend on how many wait. A scan of the mailbox would make it 1e5
// times.
TEST(Actor, HandlesAtTheSameCostAtAnyDepth) {
  class Counter final : public Actor {
   public:
    Counter() { on(&Counter::note); }
    void note(Note) { ++count; }
    int count = 0;
  };
  static constexpr int kMessages = 100'000;
  const auto cost = [](int depth) {  // processor time
    SimWorld world(1);
    auto& counter = world.system().add<Counter>("counter");
    world.start();
    world.settle();
    const std::clock_t begin = std::clock();
    for (int sent = 0; sent < kMessages; sent += depth) {
      for (int i = 0; i < depth; ++i) counter.self().send(Note{i});
      world.settle();
    }
    EXPECT_EQ(counter.count, kMessages);
    EXPECT_EQ(counter.probe().depth_max(), depth);
    return std::clock() - begin;
  };
  EXPECT_LT(cost(kMessages), 10 * cost(1));
}

}  // namespace
}  // namespace troupe::actor
