#include "runtime/actor/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/actor/sim_world.h"

namespace troupe::actor {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Breakdown {
  std::string why;
};
struct Done {};

// Fails when told, and when the one it depends on goes down.
class Worker final : public Actor {
 public:
  explicit Worker(Ref needs = {}) : needs_(std::move(needs)) {
    on(&Worker::break_down);
    on(&Worker::done);
  }
  void started() override {
    if (needs_) monitor(needs_);
  }
  void down(const Down& down) override {
    if (!down.cause.ok()) fail(Status(absl::StatusCode::kAborted, "lost its source"), &down);
  }
  void break_down(Breakdown message) { fail(Status(absl::StatusCode::kDataLoss, message.why)); }
  void done(Done) { finish_job(); }

 private:
  Ref needs_;
};

struct SupervisorTest : testing::Test {
  SimWorld world{41};
  Worker& first = world.system().add<Worker>("first");
  Worker& second = world.system().add<Worker>("second", first.self());
  Worker& third = world.system().add<Worker>("third", second.self());

  void start() {
    world.start();
    ASSERT_TRUE(world.run().ok());
  }
  std::vector<std::string> living() {
    std::vector<std::string> names;
    for (const auto& row : world.system().probes().snapshot().actors) names.push_back(row.name);
    return names;
  }
};

TEST_F(SupervisorTest, NamesTheFirstFailure) {
  start();
  first.self().send(Breakdown{"torn file"});
  const Status status = world.run();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(status.message()).find("actor 'first' failed: torn file"), 0u);
}

TEST_F(SupervisorTest, StopsAllOthersAtTheFirstFailure) {
  start();
  EXPECT_EQ(living().size(), 4u);
  third.self().send(Breakdown{"broke"});
  EXPECT_FALSE(world.run().ok());
  EXPECT_THAT(living(), testing::ElementsAre("supervisor"));
  EXPECT_THAT(std::string(world.system().outcome().message()), Not(HasSubstr("first")));
}

TEST(Supervisor, KeepsTheChainOfCauses) {
  SimWorld world(7, 1, {.stop_on_failure = false});
  auto& first = world.system().add<Worker>("first");
  auto& second = world.system().add<Worker>("second", first.self());
  world.system().add<Worker>("third", second.self());
  world.system().add<Worker>("bystander");
  world.start();
  world.settle();
  first.self().send(Breakdown{"torn file"});
  const std::string text(world.run().message());
  EXPECT_THAT(text, HasSubstr("actor 'first' failed: torn file; then 'second' failed: lost its source"));
  EXPECT_THAT(text, HasSubstr("then 'third' failed: lost its source (chain: first: torn file -> second: lost "
                              "its source -> third: "
                              "lost its source)"));
  EXPECT_THAT(text, Not(HasSubstr("bystander")));
  for (const auto& stone : world.system().probes().snapshot().tombstones) {
    if (stone.name == "third") {
      EXPECT_EQ(stone.chain.front(), "first: torn file");
    }
  }
}

TEST_F(SupervisorTest, EndsTheJobWhenAnActorSaysSo) {
  start();
  second.self().send(Done{});
  EXPECT_TRUE(world.run().ok());
  EXPECT_THAT(living(), testing::ElementsAre("supervisor"));
}

TEST_F(SupervisorTest, NamesTheFirstFailureWhateverTheOrderOfEvents) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimWorld again(seed);
    auto& source = again.system().add<Worker>("source");
    auto& sink = again.system().add<Worker>("sink", source.self());
    again.system().add<Worker>("end", sink.self());
    again.start();
    again.settle();
    source.self().send(Breakdown{"torn"});
    EXPECT_EQ(std::string(again.run().message()).find("actor 'source' failed: torn"), 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::actor
