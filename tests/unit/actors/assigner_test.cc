#include "actors/train/assigner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "runtime/actor/sim_world.h"
#include "tests/support/tiny_job.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::test {
namespace {

using namespace actors;
using testing::ElementsAre, testing::HasSubstr;
constexpr std::int64_t kUnit = 10'000'000;

// A real assigner; the test plays the replicas.
class Assigner : public testing::Test {
 protected:
  using Replica = test::Inbox<MicroBatchAssigned>;

  void begin(int replicas, int micro_batches, std::optional<AssignmentRecord> record = {}) {
    auto& system = world_.system();
    assigner_ = &system.add<actors::Assigner>(
        "assigner",
        actors::Assigner::Setup{.replicas = replicas, .micro_batches = micro_batches, .start = StepId(4), .record = std::move(record)});
    std::vector<std::vector<actor::Ref>> refs;
    for (int i = 0; i < replicas; ++i) {
      replicas_.push_back(&system.add<Replica>("replica-" + std::to_string(i)));
      refs.push_back({replicas_.back()->self()});
    }
    assigner_->connect_to(refs);
    world_.start();
  }
  // Until nobody has a message; not as far as a timer.
  void ask(MicroBatchAsked message) {
    assigner_->self().send(message);
    const auto busy = [&] {
      return assigner_->probe().depth() > 0 ||
             std::any_of(replicas_.begin(), replicas_.end(), [](Replica* replica) { return replica->probe().depth() > 0; });
    };
    while (busy()) world_.step();
  }
  std::vector<int> given(int replica) const {
    std::vector<int> all;
    for (const auto& answer : replicas_[static_cast<std::size_t>(replica)]->of<MicroBatchAssigned>()) all.push_back(answer.micro_batch);
    return all;
  }
  std::size_t answers(int replica) const { return given(replica).size(); }
  const MicroBatchAssigned& last(int replica) const { return replicas_[static_cast<std::size_t>(replica)]->last<MicroBatchAssigned>(); }

  actor::SimWorld world_{3};
  std::vector<Replica*> replicas_;
  actors::Assigner* assigner_ = nullptr;
};

TEST_F(Assigner, GivesEachMicroBatchOnceInTheOrderOfTheQuestions) {
  begin(2, 3);
  ask({.step = StepId(5), .next = 0, .replica = 1});
  ask({.step = StepId(5), .next = 0, .replica = 0});
  ask({.step = StepId(5), .next = 1, .open = true, .replica = 0});
  EXPECT_THAT(given(1), ElementsAre(0));
  EXPECT_THAT(given(0), ElementsAre(1, 2));
  EXPECT_TRUE(last(0).last);   // of the step
  EXPECT_FALSE(last(1).last);  // it was not known then
}

TEST_F(Assigner, EndsEveryShareOnce) {
  begin(2, 2);
  ask({.step = StepId(5), .next = 0, .replica = 1});
  ask({.step = StepId(5), .next = 0, .replica = 0});  // the last one
  ask({.step = StepId(5), .next = 1, .open = true, .replica = 1});
  EXPECT_THAT(given(1), ElementsAre(0, -1));
  EXPECT_TRUE(last(1).last);
  ask({.step = StepId(5), .next = 1, .finished = 1, .open = true, .pace_ns = kUnit, .replica = 1});  // was on its way
  EXPECT_EQ(answers(1), 2u);
  // Replica 0 is in the next step; replica 1 asks for the old one once more only if it has not heard of its end.
  ask({.step = StepId(6), .next = 0, .replica = 0});
  EXPECT_EQ(last(0).step, StepId(6));
  EXPECT_THAT(given(0), ElementsAre(1, 0));
  ask({.step = StepId(6), .next = 0, .replica = 1});
  EXPECT_THAT(given(1), ElementsAre(0, -1, 1));
}

// One of three hears of the end of its share only when others have begun the next step.
TEST_F(Assigner, EndsAShareOfAStepThatIsOverForTheOthers) {
  begin(2, 1);
  ask({.step = StepId(5), .next = 0, .replica = 0});
  ask({.step = StepId(6), .next = 0, .replica = 0});
  ask({.step = StepId(5), .next = 0, .replica = 1});
  EXPECT_EQ(last(1).micro_batch, -1);
  EXPECT_EQ(last(1).step, StepId(5));
}

TEST_F(Assigner, AnswersARepeatedQuestionOnce) {
  begin(2, 12);
  ask({.step = StepId(5), .next = 0, .replica = 0});
  ask({.step = StepId(5), .next = 0, .open = true, .replica = 0});
  EXPECT_EQ(answers(0), 1u);
}

// Replica 1 takes three units for what replica 0 does in one. At the end it has to wait, and hears once nothing is left.
TEST_F(Assigner, LetsASlowReplicaWaitAtTheEndOfAStep) {
  begin(2, 3);
  for (int replica : {0, 1}) ask({.step = StepId(5), .next = 0, .replica = replica});
  ask({.step = StepId(5), .next = 1, .finished = 1, .open = true, .pace_ns = 3 * kUnit, .replica = 1});
  ask({.step = StepId(5), .next = 1, .finished = 1, .open = true, .pace_ns = kUnit, .replica = 0});
  for (int replica : {0, 1}) ask({.step = StepId(5), .next = 2, .finished = 1, .open = true, .replica = replica});
  for (int replica : {0, 1}) {
    ASSERT_TRUE(last(replica).last);
    ask({.step = StepId(6), .next = 0, .replica = replica});
  }
  EXPECT_THAT(given(1).back(), 1);
  const auto before = answers(1);
  ask({.step = StepId(6), .next = 1, .open = true, .replica = 1});  // would end at 6 units, replica 0 at 2
  EXPECT_EQ(answers(1), before);
  ask({.step = StepId(6), .next = 1, .open = true, .replica = 0});
  EXPECT_EQ(given(0).back(), 2);
  EXPECT_EQ(answers(1), before + 1);
  EXPECT_EQ(last(1).micro_batch, -1);
}

// The same, but replica 0 is not heard of any more: by and by the slow one gets what is left.
TEST_F(Assigner, GivesWhatIsLeftToAWaitingReplicaWhenTheOtherStandsStill) {
  begin(2, 3);
  for (int replica : {0, 1}) ask({.step = StepId(5), .next = 0, .replica = replica});
  ask({.step = StepId(5), .next = 1, .finished = 1, .open = true, .pace_ns = kUnit, .replica = 0});
  ask({.step = StepId(5), .next = 1, .finished = 1, .open = true, .pace_ns = 3 * kUnit, .replica = 1});
  EXPECT_THAT(given(0), ElementsAre(0, 2));
  EXPECT_THAT(given(1), ElementsAre(1, -1));
  for (int replica : {0, 1}) ask({.step = StepId(6), .next = 0, .replica = replica});
  for (int replica : {0, 1}) ask({.step = StepId(6), .next = 0, .open = true, .replica = replica});  // both begin
  ask({.step = StepId(6), .next = 1, .open = true, .replica = 1});
  EXPECT_THAT(given(1), ElementsAre(1, -1, 1)) << "it has to wait";
  EXPECT_EQ(world_.clock().now_ns(), 0);
  ASSERT_TRUE(world_.run(1'000).ok());  // timers, and they end
  EXPECT_THAT(given(1), ElementsAre(1, -1, 1, 2));
  EXPECT_GE(world_.clock().now_ns(), 3 * kUnit);
}

class Records : public Assigner {
 protected:
  StatusOr<AssignmentRecord> read(const std::string& text, int replicas = 2, int micro_batches = 3, int first = 5, int last = 6) {
    std::ofstream(path_) << text;
    return AssignmentRecord::read(path_, StepId(first), StepId(last), replicas, micro_batches);
  }
  std::string refusal(const std::string& text, int replicas = 2, int micro_batches = 3) {
    const auto record = read(text, replicas, micro_batches);
    EXPECT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(record.status().message());
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/metrics.jsonl";
  const std::string sound_ =
      "{\"step\": 4, \"loss\": 1}\n{\"step\": 5, \"assigned\": [[2, 0], [1]]}\n{\"step\": 6, \"assigned\": [[], [1, 0, 2]]}\n";
};

TEST_F(Records, FollowsARecording) {
  auto record = read(sound_);
  ASSERT_TRUE(record.ok()) << record.status();
  begin(2, 3, *std::move(record));
  ask({.step = StepId(5), .next = 0, .replica = 0});
  ask({.step = StepId(5), .next = 0, .open = true, .replica = 0});  // said again before the answer came
  EXPECT_THAT(given(0), ElementsAre(2));
  ask({.step = StepId(5), .next = 1, .open = true, .replica = 0});
  EXPECT_TRUE(last(0).last);
  ask({.step = StepId(6), .next = 0, .replica = 0});
  EXPECT_THAT(given(0), ElementsAre(2, 0, -1));
  ask({.step = StepId(5), .next = 0, .replica = 1});  // much later than the other: the same
  EXPECT_TRUE(last(1).last);
  for (int next : {0, 1, 2}) ask({.step = StepId(6), .next = next, .replica = 1});
  EXPECT_THAT(given(1), ElementsAre(1, 1, 0, 2));
}

TEST_F(Records, RefusesWhatDoesNotFitTheRun) {
  EXPECT_THAT(refusal("nonsense\n"), HasSubstr(path_ + ":1: no line of metrics"));
  EXPECT_THAT(refusal("{\"step\": 5}\n"),
              HasSubstr(":1: step 5 has no \"assigned\": it is of a run without parallelism.balance = \"pull\""));
  EXPECT_THAT(refusal("{\"step\": 5, \"assigned\": [[-1], [99999999999]]}\n"), HasSubstr("has no \"assigned\""));
  EXPECT_THAT(refusal(sound_, 4),
              HasSubstr(":2: the assignment of step 5 is of 2 replicas, this run has 4: set parallelism.data_parallel = 2"));
  EXPECT_THAT(refusal(sound_, 2, 4), HasSubstr("has 3 micro-batches, this run's steps have 4: set training.global_batch"));
  EXPECT_THAT(refusal(sound_, 2, 2), HasSubstr("names micro-batch 2, this run's steps have 2"));
  EXPECT_THAT(refusal("{\"step\": 5, \"assigned\": [[2, 0], [2]]}\n"), HasSubstr("names micro-batch 2 twice"));
  const auto longer = read(sound_, 2, 3, 5, 9);
  EXPECT_THAT(std::string(longer.status().message()),
              HasSubstr("no step 7, this run is of the steps 5 to 9; set training.steps = 6, or name a longer run"));
  EXPECT_TRUE(absl::IsNotFound(AssignmentRecord::read(folder_.path() + "/none", StepId(1), StepId(2), 2, 3).status()));
}

}  // namespace
}  // namespace troupe::test
