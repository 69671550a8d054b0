// CASES T30: no order of sends and receives between stages stops, whatever is slow: the stages' rule with the plan's credits, in every order of
// events where there are few, in many drawn ones where there are more; and in virtual time, as every plan is rehearsed. The real stages go through
// the same cases in tests/sim/train/schedules_test.cc.
#include "actors/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/plan/plan.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/rng.h"
#include "tests/support/tiny_job.h"

namespace troupe::plan {
namespace {

using testing::ElementsAre, testing::HasSubstr;

// For a set of those that have been seen.
std::string state_of(const ScheduleWalk& walk, int stages) {
  std::string bytes;
  for (int stage = 0; stage < stages; ++stage) {
    const auto& it = walk.at(stage);
    for (const int count : {it.forward_begun, it.forward_done, it.backward_begun, it.backward_done, it.activation.arrived, it.activation.back,
                            it.gradient.arrived, it.gradient.back}) {
      bytes.push_back(static_cast<char>(count));  // the others follow from these
    }
  }
  return bytes;
}

// Where it stops in any order at all, or empty.
std::string stops_in_any_order(const ScheduleRules& rules, std::size_t& states) {
  std::unordered_set<std::string> seen;
  std::vector<ScheduleWalk> left{ScheduleWalk(rules)};
  while (!left.empty()) {
    const ScheduleWalk walk = std::move(left.back());
    left.pop_back();
    if (!seen.insert(state_of(walk, static_cast<int>(rules.stages.size()))).second) continue;
    if (!rules.pooled && !walk.within_bounds()) return absl::StrCat("out of bounds: ", walk.describe());
    const auto moves = walk.moves();
    if (moves.empty() && !walk.finished()) return absl::StrCat("stops: ", walk.describe());
    for (const auto& move : moves) {
      left.push_back(walk);
      left.back().make(move);
    }
  }
  states += seen.size();
  return {};
}

std::string stops_in_drawn_orders(const ScheduleRules& rules, int orders) {
  for (int order = 0; order < orders; ++order) {
    const RandomStream random({.seed = static_cast<std::uint64_t>(order), .use = 30});
    ScheduleWalk walk(rules);
    std::uint64_t drawn = 0;
    for (auto moves = walk.moves(); !moves.empty(); moves = walk.moves()) {
      walk.make(moves[random.at(drawn++) % moves.size()]);
      if (!rules.pooled && !walk.within_bounds()) return absl::StrCat("out of bounds: ", walk.describe());
    }
    if (!walk.finished()) return absl::StrCat("order ", order, " stops: ", walk.describe());
  }
  return {};
}

ScheduleRules planned(int stages, int micro_batches, const std::string& schedule) {
  const auto job = parse_job_config(test::tiny_config("corpus", "run"), "test.toml",
                                    {"--model.layers=6", absl::StrCat("--parallelism.pipeline=", stages),
                                     absl::StrCat("--training.global_batch=", micro_batches), "--training.micro_batch=1", "--parallelism.schedule=" + schedule});
  EXPECT_TRUE(job.ok()) << job.status();
  const auto plan = make_plan(*job, {.threads = 1}, kernels::cpu::table());
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->micro_batches, micro_batches);
  return {plan->stages, micro_batches};
}

TEST(Schedule, NoOrderOfSendsAndReceivesStops) {
  std::size_t states = 0;
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (int stages = 1; stages <= 3; ++stages) {
      for (int micro_batches = 1; micro_batches <= (stages == 3 ? 3 : 5); ++micro_batches) {
        const ScheduleRules rules = planned(stages, micro_batches, schedule);
        EXPECT_EQ(stops_in_any_order(rules, states), "") << schedule << ", " << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
    for (int stages = 2; stages <= 6; ++stages) {
      for (const int micro_batches : {1, 2, 3, 5, 8, 13}) {
        const ScheduleRules rules = planned(stages, micro_batches, schedule);
        EXPECT_EQ(stops_in_drawn_orders(rules, 20), "") << schedule << ", " << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
  }
  EXPECT_GT(states, 1'000u);
  printf("%d states\n", static_cast<int>(states));
}

// Not only with the credits that the plan gives: with any number of each, the same for all stages or not.
TEST(Schedule, NoOrderStopsWithAnyCredits) {
  std::size_t states = 0;
  for (int in_flight = 1; in_flight <= 3; ++in_flight) {
    for (int down = 1; down <= 3; ++down) {
      for (int up = 1; up <= 2; ++up) {
        ScheduleRules rules = planned(2, 4, "1f1b");
        rules.stages[0].in_flight = in_flight, rules.stages[0].activation_credits = down;
        rules.stages[1].in_flight = 4 - in_flight, rules.stages[1].gradient_credits = up;
        EXPECT_EQ(stops_in_any_order(rules, states), "") << in_flight << " in flight, " << down << " down, " << up << " up";
      }
    }
  }
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random({.seed = seed, .use = 31});
    std::uint64_t drawn = 0;
    const auto draw = [&](int most) { return 1 + static_cast<int>(random.at(drawn++) % static_cast<std::uint64_t>(most)); };
    ScheduleRules rules = planned(1 + draw(5), draw(9), "1f1b");
    for (auto& shape : rules.stages) {
      shape.in_flight = draw(4);
      if (!shape.last()) shape.activation_credits = draw(3);
      if (!shape.first()) shape.gradient_credits = draw(3);
    }
    EXPECT_EQ(stops_in_drawn_orders(rules, 5), "") << "seed " << seed;
  }
}

// What it is for: an edge without a credit, and one channel for both directions, where activations take what the gradients need.
TEST(Schedule, TheSimulatorSeesWhatStops) {
  std::size_t states = 0;
  ScheduleRules closed = planned(3, 2, "1f1b");
  closed.stages[2].gradient_credits = 0;
  EXPECT_NE(stops_in_any_order(closed, states), "");
  for (int stages = 2; stages <= 3; ++stages) {
    ScheduleRules pooled = planned(stages, 2, "gpipe");
    for (auto& shape : pooled.stages) shape.activation_credits = shape.last() ? 0 : 2;
    EXPECT_EQ(stops_in_any_order(pooled, states), "") << "with a channel for each direction";
    pooled.pooled = true;
    EXPECT_NE(stops_in_any_order(pooled, states), "");
    EXPECT_NE(stops_in_drawn_orders(pooled, 50), "");
  }
}

Plan planned_in(int processes, int micro_batches, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"--parallelism.pipeline=4", absl::StrCat("--training.global_batch=", micro_batches)};
  overrides.insert(overrides.end(), more.begin(), more.end());
  const auto job = parse_job_config(test::tiny_config("corpus", "run"), "test.toml", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  auto plan = make_plan(*job, {.threads = 1, .processes = processes}, kernels::cpu::table());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(Rehearsal, OneMicroBatchOccupiesOneOfTheProcesses) {
  EXPECT_DOUBLE_EQ(planned_in(4, 1).rehearsal.bubble_share, 3.0 / 4);
  EXPECT_DOUBLE_EQ(planned_in(2, 1).rehearsal.bubble_share, 1.0 / 2);
}

TEST(Rehearsal, StagesOfOneProcessAreNeverIdle) {
  const Plan plan = planned_in(1, 5);
  EXPECT_NEAR(plan.rehearsal.bubble_share, 0, 1e-12);
  // Of each micro-batch a forward and two backward halves of every layer; the head's three at once.
  EXPECT_NEAR(plan.rehearsal.span_flops / (5 * 3 * (4 * plan.layer_cost() + plan.head_cost())), 1, 1e-12);
  const Plan again = planned_in(1, 5, {"--training.recompute=full"});
  EXPECT_NEAR(again.rehearsal.span_flops / (5 * (16 * again.layer_cost() + 3 * again.head_cost())), 1, 1e-12);
}

// (P - 1) / (M + P - 1) of stages that take the same (Narayanan et al. 2021), whatever the schedule; what 1F1B saves is what it keeps.
TEST(Rehearsal, HasTheBubbleOfThePaperWhereTheHeadIsSmall) {
  const std::vector<std::string> wide{"--model.hidden=512", "--model.intermediate=1536", "--model.vocab_size=64"};
  auto gpipe = wide;
  gpipe.push_back("--parallelism.schedule=gpipe");
  const Plan one_f_one_b = planned_in(4, 8, wide), all_first = planned_in(4, 8, gpipe);
  EXPECT_NEAR(one_f_one_b.rehearsal.bubble_share, 3.0 / 11, 0.02);
  EXPECT_NEAR(all_first.rehearsal.bubble_share, 3.0 / 11, 0.02);
  EXPECT_THAT(one_f_one_b.rehearsal.in_flight, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(all_first.rehearsal.in_flight.front(), 8);
  EXPECT_THAT(describe(one_f_one_b, {}), HasSubstr("rehearsed with 8 micro-batches"));
}

TEST(Rehearsal, OfALongStepIsShort) {
  const Plan plan = planned_in(4, 1'000'000);
  EXPECT_LT(plan.rehearsal.micro_batches, 10'000);
  EXPECT_GT(plan.rehearsal.micro_batches, 100);
}

TEST(Rehearsal, RefusesAPlanThatStops) {
  Plan plan = planned_in(4, 3);
  ASSERT_TRUE(rehearse(plan).ok());
  Plan closed = plan;
  closed.stages[2].gradient_credits = 0;
  const Status status = rehearse(closed).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stage-2 has done 2 forward and 0 backward passes of 3, all of its 2 slots are in use, it has no credit for a gradient"));
  Plan without_slot = plan;
  without_slot.stages[1].in_flight = 0;
  EXPECT_FALSE(rehearse(without_slot).ok());
}

}  // namespace
}  // namespace troupe::plan
