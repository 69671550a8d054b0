#include "runtime/task/ready_queue.h"

#include <gtest/gtest.h>

#include "runtime/task/task.h"

namespace troupe::task {
namespace {

Task<> nothing() { co_return; }

TEST(ReadyQueue, TakesTheMostUrgentFirstAndEqualOnesInOrderOfArrival) {
  TaskRun forward(nothing()), backward(nothing()), second_backward(nothing()), evaluate(nothing());
  ReadyQueue queue;
  queue.push({.urgency = Urgency::kEvaluate, .step = 1}, &evaluate);
  queue.push({.urgency = Urgency::kForward, .step = 1}, &forward);
  queue.push({.urgency = Urgency::kInputGradient, .step = 2}, &backward);
  queue.push({.urgency = Urgency::kInputGradient, .step = 2}, &second_backward);
  EXPECT_EQ(queue.pop(), &backward);
  EXPECT_EQ(queue.pop(), &second_backward);
  EXPECT_EQ(queue.pop(), &forward);
  EXPECT_EQ(queue.pop(), &evaluate);
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(ReadyQueue, PrefersTheEarlierStepThenMicroBatchThenPosition) {
  TaskRun a(nothing()), b(nothing()), c(nothing()), d(nothing());
  ReadyQueue queue;
  queue.push({.step = 2, .micro_batch = 0, .position = 0}, &d);
  queue.push({.step = 1, .micro_batch = 1, .position = 0}, &c);
  queue.push({.step = 1, .micro_batch = 0, .position = 2}, &b);
  queue.push({.step = 1, .micro_batch = 0, .position = 1}, &a);
  EXPECT_EQ(queue.pop(), &a);
  EXPECT_EQ(queue.pop(), &b);
  EXPECT_EQ(queue.pop(), &c);
  EXPECT_EQ(queue.pop(), &d);
}

}  // namespace
}  // namespace troupe::task
