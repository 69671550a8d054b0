#include "runtime/device/sim_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace troupe::device {
namespace {

using testing::ElementsAre;

struct SimStreamTest : testing::Test {
  VirtualClock clock;
  SimStream stream{"device", clock, [](std::uint64_t) { return 100; }};
  std::vector<int> done;

  Work work(int number) {
    return [this, number](StreamContext&) { done.push_back(number); };
  }
  // Lets time pass to the next step of `of` and takes it.
  void step(SimStream& of) {
    ASSERT_NE(of.ready_at_ns(), SimStream::kNever);
    if (of.ready_at_ns() > clock.now_ns()) clock.advance(of.ready_at_ns() - clock.now_ns());
    of.step();
  }
};

TEST_F(SimStreamTest, RunsInOrderAndTakesTime) {
  stream.enqueue(work(1));
  stream.enqueue(work(2));
  EXPECT_EQ(stream.ready_at_ns(), 100);
  step(stream);
  EXPECT_THAT(done, ElementsAre(1));
  EXPECT_EQ(stream.ready_at_ns(), 200);
  step(stream);
  EXPECT_THAT(done, ElementsAre(1, 2));
  EXPECT_EQ(stream.ready_at_ns(), SimStream::kNever);
}

TEST_F(SimStreamTest, AnEventIsDoneWhenTheWorkBeforeItIs) {
  stream.enqueue(work(1));
  const Event event = stream.record();
  EXPECT_FALSE(event.done());
  step(stream);
  EXPECT_FALSE(event.done());
  step(stream);
  EXPECT_TRUE(event.done());
}

TEST_F(SimStreamTest, WaitsForTheEventOfAnotherStream) {
  SimStream other("other", clock);
  stream.enqueue(work(1));
  other.wait(stream.record());
  other.enqueue(work(2));
  EXPECT_EQ(other.ready_at_ns(), SimStream::kNever);
  step(stream);
  step(stream);
  step(other);
  step(other);
  EXPECT_THAT(done, ElementsAre(1, 2));
  EXPECT_EQ(clock.now_ns(), 100);
}

TEST_F(SimStreamTest, WaitingForAnEventNeverRecordedIsABug) {
  EXPECT_DEATH(stream.wait(Event()), "stream 'device' waits for an event that was never recorded");
}

TEST_F(SimStreamTest, KeepsTheFirstErrorAndDropsWorkAfterIt) {
  stream.enqueue([](StreamContext&) { return Status(absl::StatusCode::kInternal, "first"); });
  stream.enqueue([](StreamContext&) { return Status(absl::StatusCode::kInternal, "second"); });
  stream.enqueue(work(3));
  stream.notify(work(4));
  const Event event = stream.record();
  while (stream.pending() > 0) step(stream);
  EXPECT_EQ(stream.first_error().message(), "first");
  EXPECT_THAT(done, ElementsAre(4));
  EXPECT_TRUE(event.done());
}

TEST_F(SimStreamTest, MayNotBeSteppedBeforeItsTime) {
  stream.enqueue(work(1));
  EXPECT_DEATH(stream.step(), "stepped before its head is ready");
}

}  // namespace
}  // namespace troupe::device
