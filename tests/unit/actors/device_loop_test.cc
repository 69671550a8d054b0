#include "actors/train/device_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/actor/sim_world.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::test {
namespace {

using namespace actors;
using task::Key, task::Turn, task::Urgency;
using testing::ElementsAre;

// A device whose operations take a second each, and tasks of one operation that say when they run.
class DeviceLoopTest : public testing::Test {
 protected:
  actors::DeviceLoop& device(int max_operations) {
    auto& loop = world_.system().add<actors::DeviceLoop>("device", stream_, world_.clock(), max_operations);
    world_.start();
    return loop;
  }
  void give(actors::DeviceLoop& loop, Key key, int label, double cost = 0) {
    tasks_.push_back(std::make_unique<DeviceTask>(one_operation(key, cost, label, shown_), owner_.self(), static_cast<std::uint64_t>(label)));
    loop.self().send(RunTask{tasks_.back().get()});
  }
  // All messages are handled; the device is still at the first operation.
  void handle_messages(actors::DeviceLoop& loop) {
    const auto handled = [&] { return loop.probe().depth() == 0 && owner_.probe().depth() == 0; };
    ASSERT_TRUE(world_.run(1000, handled).ok());
  }
  task::Task<> behind(task::Gate* gate, Key key, int label) {
    co_await *gate;
    co_await Turn{key};
    stream_.enqueue([this, label](device::StreamContext&) { ran_.push_back(label); });
  }
  task::Task<> one_operation(Key key, double cost, int label, trace::Operation shown) {
    co_await Turn{.key = key, .cost = cost, .shown = shown};
    stream_.enqueue([this, label](device::StreamContext&) { ran_.push_back(label); });
  }

  actor::SimWorld world_{1};
  device::SimStream& stream_ = world_.add_stream("compute", [](std::uint64_t) { return 1'000'000'000; });
  test::Inbox<TaskDone>& owner_ = world_.system().add<test::Inbox<TaskDone>>("owner");
  std::vector<std::unique_ptr<DeviceTask>> tasks_;
  std::vector<int> ran_;
  trace::Operation shown_;  // of the tasks that are given next
};

TEST_F(DeviceLoopTest, StartsNothingWithoutRoom) {
  auto& loop = device(0);
  for (int i = 0; i < 3; ++i) give(loop, {}, i);
  ASSERT_TRUE(world_.run().ok());
  EXPECT_EQ(loop.operations_started(), 0);
  EXPECT_EQ(stream_.pending(), 0u);
  EXPECT_EQ(loop.probe().depth(), 0);
  EXPECT_EQ(owner_.count<TaskDone>(), 0u);
}

// Others go on meanwhile, also less urgent ones.
TEST_F(DeviceLoopTest, ATaskAtAGateTakesNoTurnBeforeItIsOpened) {
  auto& loop = device(2);
  task::Gate gate;
  tasks_.push_back(std::make_unique<DeviceTask>(behind(&gate, {.urgency = Urgency::kUpdate}, 1), owner_.self(), 1));
  loop.self().send(RunTask{tasks_.back().get()});
  give(loop, {.urgency = Urgency::kForward}, 2);
  ASSERT_TRUE(world_.run().ok());
  EXPECT_THAT(ran_, ElementsAre(2));
  loop.self().send(OpenGate{&gate});
  ASSERT_TRUE(world_.run().ok());
  EXPECT_THAT(ran_, ElementsAre(2, 1));
  EXPECT_EQ(owner_.count<TaskDone>(), 2u);
}

TEST_F(DeviceLoopTest, StartsWhatItHasRoomForAndTheRestAsOperationsComplete) {
  auto& loop = device(2);
  for (int i = 0; i < 5; ++i) give(loop, {}, i);
  handle_messages(loop);
  EXPECT_EQ(loop.operations_started(), 2);
  EXPECT_THAT(ran_, ElementsAre());
  ASSERT_TRUE(world_.run().ok());
  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(owner_.count<TaskDone>(), 5u);
}

// However long the operations are, the device finds the next one waiting; and no more than that.
TEST_F(DeviceLoopTest, KeepsTwoOperationsEnqueuedWhenEachIsLongerThanItsRunAhead) {
  auto& loop = device(256);
  for (int i = 0; i < 5; ++i) give(loop, {}, i, 1e12);
  handle_messages(loop);
  EXPECT_EQ(loop.operations_started(), 2);
  ASSERT_TRUE(world_.run().ok());
  EXPECT_EQ(loop.operations_started(), 5);
}

TEST_F(DeviceLoopTest, TakesTheMostUrgentTurn) {
  auto& loop = device(1);
  give(loop, {.urgency = Urgency::kEvaluate}, 0);  // there is room, so it goes
  handle_messages(loop);
  give(loop, {.urgency = Urgency::kEvaluate}, 8);
  give(loop, {.urgency = Urgency::kForward, .step = 2}, 7);
  give(loop, {.urgency = Urgency::kForward, .step = 1, .micro_batch = 1}, 6);
  give(loop, {.urgency = Urgency::kForward, .step = 1, .micro_batch = 0, .position = 3}, 4);
  give(loop, {.urgency = Urgency::kForward, .step = 1, .micro_batch = 0, .position = 3}, 5);  // equal: in order of arrival
  give(loop, {.urgency = Urgency::kInputGradient, .step = 9}, 3);
  give(loop, {.urgency = Urgency::kWeightGradient, .step = 9}, 2);
  give(loop, {.urgency = Urgency::kUpdate, .step = 9}, 1);
  ASSERT_TRUE(world_.run().ok());
  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(DeviceLoopTest, TellsTheOwnerWithTheEventAfterWhichTheWorkIsDone) {
  auto& loop = device(1);
  give(loop, {}, 17);
  handle_messages(loop);
  ASSERT_EQ(owner_.count<TaskDone>(), 1u);  // enqueued, not done
  EXPECT_EQ(owner_.last<TaskDone>().token, 17u);
  EXPECT_FALSE(owner_.last<TaskDone>().done.done());
  ASSERT_TRUE(world_.run().ok());
  EXPECT_TRUE(owner_.last<TaskDone>().done.done());
}

TEST_F(DeviceLoopTest, SaysWhichOperationRuns) {
  auto& loop = device(2);
  shown_ = {.what = "forward", .block = 3, .step = 8, .micro_batch = 1};
  give(loop, {}, 0);
  shown_ = {.what = "update", .step = 8};
  give(loop, {}, 1);
  handle_messages(loop);
  const auto running = [&] {
    const auto row = loop.probe().row(world_.system().probes().texts());
    return doing(row);
  };
  EXPECT_EQ(running(), "running forward block 3 of micro-batch 1");
  ASSERT_TRUE(world_.run(1000, [&] { return running() != "running forward block 3 of micro-batch 1"; }).ok());
  EXPECT_EQ(running(), "running update of step 8");
  ASSERT_TRUE(world_.run().ok());
  EXPECT_EQ(running(), "idle");
}

TEST_F(DeviceLoopTest, FailsWithTheStreamsFirstError) {
  auto& loop = device(1);
  stream_.enqueue([](device::StreamContext&) { return Status(absl::StatusCode::kInternal, "no such address"); });
  give(loop, {}, 0);
  const Status status = world_.run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("'device' failed"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no such address"));
}

}  // namespace
}  // namespace troupe::test
