#include "runtime/task/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace troupe::task {
namespace {

Task<> immediate() { co_return; }

Task<> await_many(int count, int* reached) {
  for (int i = 0; i < count; ++i) co_await immediate();
  *reached = count;
}

Task<> nested(int depth, int* deepest) {
  if (depth == 0) {
    ++*deepest;
    co_return;
  }
  co_await nested(depth - 1, deepest);
}

Task<> turns(std::vector<int>* log, int from) {
  log->push_back(from);
  co_await Turn{.key = {.position = from + 1}};
  log->push_back(from + 1);
  co_await Turn{.key = {.position = from + 2}};
  log->push_back(from + 2);
}

Task<> two_passes(std::vector<int>* log) {
  co_await turns(log, 0);
  co_await turns(log, 10);
}

TEST(Task, AwaitsAMillionThatCompleteAtOnce) {
  int reached = 0;
  TaskRun run(await_many(1'000'000, &reached));
  run.resume();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(reached, 1'000'000);
}

TEST(Task, NestsAsDeepAsMemoryAllowsWithoutUsingTheStack) {
  int deepest = 0;
  TaskRun run(nested(20'000, &deepest));
  run.resume();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(deepest, 1);
}

TEST(Task, DoesNothingBeforeItIsResumed) {
  std::vector<int> log;
  TaskRun run(turns(&log, 0));
  EXPECT_TRUE(log.empty());
  EXPECT_FALSE(run.done());
}

Task<> through(Gate* gate, std::vector<int>* log) {
  log->push_back(1);
  co_await *gate;
  log->push_back(2);
  co_await Turn{.key = {.position = 7}};
  log->push_back(3);
}

TEST(Gate, HoldsATaskUntilItIsOpened) {
  Gate gate;
  std::vector<int> log;
  TaskRun run(through(&gate, &log));
  run.resume();
  EXPECT_EQ(log, (std::vector<int>{1}));
  EXPECT_TRUE(run.at_gate());
  EXPECT_EQ(run.turn(), nullptr);
  EXPECT_FALSE(run.done());
  ASSERT_EQ(gate.open(), &run);
  EXPECT_EQ(gate.open(), nullptr);  // told once
  run.resume();
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
  EXPECT_FALSE(run.at_gate());
  ASSERT_NE(run.turn(), nullptr);
  EXPECT_EQ(run.turn()->key.position, 7);
}

TEST(Gate, AnOpenOneHoldsNobody) {
  Gate gate;
  EXPECT_EQ(gate.open(), nullptr);
  std::vector<int> log;
  TaskRun run(through(&gate, &log));
  run.resume();
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
}

TEST(Task, SuspendsAtEveryTurnAlsoInsideAChild) {
  std::vector<int> log;
  TaskRun run(two_passes(&log));
  std::vector<int> awaited;
  run.resume();
  while (!run.done()) {
    ASSERT_NE(run.turn(), nullptr);
    awaited.push_back(run.turn()->key.position);
    run.resume();
  }
  EXPECT_EQ(awaited, (std::vector<int>{1, 2, 11, 12}));
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 10, 11, 12}));
  EXPECT_EQ(run.turn(), nullptr);
}

Task<> holds(std::shared_ptr<int> held) {
  co_await Turn{};
  TROUPE_CHECK(held != nullptr) << "used after the turn";
}

TEST(Task, ReleasesWhatItHoldsWhenDestroyedWhileItWaits) {
  auto held = std::make_shared<int>(1);
  {
    TaskRun run(holds(held));
    run.resume();
    EXPECT_EQ(held.use_count(), 2);
    EXPECT_FALSE(run.done());
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace troupe::task
