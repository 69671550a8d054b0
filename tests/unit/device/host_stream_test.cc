#include "runtime/device/host_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::device {
namespace {

using testing::ElementsAre;

void finish(const Event& event) { event.progress()->wait_for(event.sequence()); }

Work fails_with(Status error) {
  return [error = std::move(error)](StreamContext&) { return error; };
}

TEST(HostStream, RunsWorkInTheOrderItWasEnqueued) {
  std::vector<int> ran, expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  HostStream stream("order", 1);
  for (int i = 0; i < 1000; ++i) stream.enqueue([&ran, i](StreamContext&) { ran.push_back(i); });
  stream.synchronize();
  EXPECT_EQ(ran, expected);
  EXPECT_EQ(stream.first_error(), ok());
}

TEST(HostStream, IsKnownByItsName) {
  HostStream stream("a name longer than the system allows", 1);
  EXPECT_EQ(stream.name(), "a name longer than the system allows");
}

TEST(HostStream, GivesWorkItsTeamAndItsScratch) {
  BufferPool pool(1024);
  const Buffer scratch = pool.take("workspace", 1000);
  HostStream stream("scratch", 3, scratch);
  stream.enqueue([&scratch](StreamContext& context) {
    EXPECT_EQ(context.team.size(), 3);
    EXPECT_EQ(context.scratch, scratch.data());
    EXPECT_EQ(context.scratch_bytes, 1000);
  });
  stream.synchronize();
  HostStream without("none", 1);
  without.enqueue([](StreamContext& context) {
    EXPECT_EQ(context.scratch, nullptr);
    EXPECT_EQ(context.scratch_bytes, 0);
  });
  without.synchronize();
}

TEST(HostStream, KeepsTheFirstErrorAndDropsWorkAfterIt) {
  int ran = 0;
  HostStream stream("fails", 1);
  stream.enqueue([&ran](StreamContext&) { ++ran; });
  stream.enqueue(fails_with(absl::AbortedError("the first")));
  stream.enqueue([&ran](StreamContext&) -> Status {
    ++ran;
    return absl::InternalError("the second");
  });
  stream.synchronize();
  EXPECT_EQ(stream.first_error(), absl::AbortedError("the first"));
  stream.enqueue([&ran](StreamContext&) { ++ran; });
  stream.synchronize();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(stream.first_error(), absl::AbortedError("the first"));
}

TEST(HostStream, StillCompletesEventsAfterAnError) {
  std::atomic<bool> went_on{false};
  HostStream failing("failing", 1), other("other", 1);
  failing.enqueue(fails_with(absl::UnavailableError("gone")));
  const Event event = failing.record();
  other.wait(event);
  other.enqueue([&went_on](StreamContext&) { went_on = true; });
  other.synchronize();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(went_on);
  EXPECT_EQ(failing.first_error(), absl::UnavailableError("gone"));  // known once the event is done
  EXPECT_EQ(other.first_error(), ok());
}

TEST(HostStream, StillNotifiesAndWaitsAfterAnError) {
  std::latch gate(1);
  std::vector<int> seen;
  HostStream failing("failing", 1), slow("slow", 1);
  failing.enqueue(fails_with(absl::UnavailableError("gone")));
  slow.enqueue([&](StreamContext&) {
    gate.wait();
    seen.push_back(1);
  });
  failing.wait(slow.record());
  failing.notify([&seen](StreamContext&) { seen.push_back(2); });
  gate.count_down();
  failing.synchronize();
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(HostStream, NotifiesBetweenTheWorkBeforeAndTheWorkAfter) {
  std::latch gate(1);
  std::vector<int> seen;
  HostStream stream("notify", 1);
  stream.enqueue([&](StreamContext&) {
    gate.wait();
    seen.push_back(1);
  });
  stream.notify([&seen](StreamContext&) { seen.push_back(2); });
  stream.enqueue([&seen](StreamContext&) { seen.push_back(3); });
  EXPECT_TRUE(seen.empty());  // the work before it has not completed
  gate.count_down();
  stream.synchronize();
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

TEST(HostStream, StartsWorkAfterTheEventItWaitsFor) {
  std::latch gate(1);
  int value = 0;
  int read = 0;
  HostStream writer("writer", 1), reader("reader", 1);
  writer.enqueue([&](StreamContext&) {
    gate.wait();
    value = 42;
  });
  const Event written = writer.record();
  const Event before_the_wait = reader.record();
  reader.wait(written);
  reader.enqueue([&](StreamContext&) { read = value; });
  const Event after_the_wait = reader.record();
  finish(before_the_wait);  // what was enqueued before the wait does not stand behind it
  EXPECT_FALSE(after_the_wait.done());
  gate.count_down();
  finish(after_the_wait);
  EXPECT_EQ(read, 42);
}

TEST(HostStream, HandsWorkToAndFroByEventsAlone) {
  std::vector<int> turns, expected(400);
  std::iota(expected.begin(), expected.end(), 0);
  HostStream ping("ping", 1), pong("pong", 1);
  for (int turn = 0; turn < 400; turn += 2) {
    ping.enqueue([&turns, turn](StreamContext&) { turns.push_back(turn); });
    pong.wait(ping.record());
    pong.enqueue([&turns, turn](StreamContext&) { turns.push_back(turn + 1); });
    ping.wait(pong.record());
  }
  ping.synchronize();
  EXPECT_EQ(turns, expected);
}

TEST(HostStream, NeverStandsWaitingForItsOwnEventOrOneThatIsDone) {
  int ran = 0;
  HostStream stream("own", 1), other("other", 1);
  const Event done = other.record();
  finish(done);
  stream.wait(stream.record());
  stream.wait(done);
  stream.enqueue([&ran](StreamContext&) { ++ran; });
  stream.synchronize();
  EXPECT_EQ(ran, 1);
}

TEST(HostStream, DrainsItsQueueWhenItIsDestroyed) {
  std::latch gate(1);
  int ran = 0;
  bool notified = false;
  Event last;
  {
    HostStream other("other", 1), stream("drains", 1);
    other.enqueue([&gate](StreamContext&) { gate.wait(); });
    stream.wait(other.record());
    for (int i = 0; i < 100; ++i) stream.enqueue([&ran](StreamContext&) { ++ran; });
    stream.notify([&notified](StreamContext&) { notified = true; });
    last = stream.record();
    EXPECT_FALSE(last.done());
    gate.count_down();
  }
  EXPECT_EQ(ran, 100);
  EXPECT_TRUE(notified);
  EXPECT_TRUE(last.done());
}

TEST(HostStream, TakesWorkFromManyThreadsAndKeepsTheOrderOfEach) {
  std::vector<std::vector<int>> ran(4);
  std::vector<int> expected(500);
  std::iota(expected.begin(), expected.end(), 0);
  HostStream stream("shared", 1);
  std::vector<std::thread> threads;
  for (std::size_t from = 0; from < ran.size(); ++from) {
    threads.emplace_back([&, from] {
      for (int i = 0; i < 500; ++i) {
        stream.enqueue([&ran, from, i](StreamContext&) { ran[from].push_back(i); });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  stream.synchronize();
  for (const auto& one : ran) EXPECT_EQ(one, expected);
}

TEST(HostStream, TellsHowLongItWorkedAndHowLongItWaited) {
  std::latch gate(1), both_begun(2);
  HostStream worker("worker", 1), waiter("waiter", 1);
  worker.enqueue([&](StreamContext&) {
    both_begun.count_down();
    gate.wait();
  });
  waiter.enqueue([&both_begun](StreamContext&) { both_begun.count_down(); });
  waiter.wait(worker.record());
  both_begun.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // time itself is what is measured
  gate.count_down();
  waiter.synchronize();
  EXPECT_GT(waiter.waited_ns(), 0);
  EXPECT_EQ(worker.waited_ns(), 0);
  EXPECT_GE(worker.busy_ns(), 5'000'000);
}

TEST(HostStream, DiesOfAQueueThatIsFull) {
  const auto overfill = [] {
    std::latch gate(1);
    HostStream stream("narrow", 1);
    stream.enqueue([&gate](StreamContext&) { gate.wait(); });
    for (std::size_t i = 0; i <= HostStream::kCapacity; ++i) stream.enqueue([](StreamContext&) {});
    gate.count_down();
  };
  EXPECT_DEATH(overfill(), "narrow");
}

TEST(HostStream, DiesOfAWaitForAnEventThatWasNeverRecorded) {
  EXPECT_DEATH(HostStream("hasty", 1).wait(Event()), "hasty.*never recorded");
}

TEST(Event, IsEmptyUntilRecorded) {
  HostStream stream("s", 1);
  Event event;
  EXPECT_FALSE(event.recorded());
  event = stream.record();
  EXPECT_TRUE(event.recorded());
}

TEST(Event, DiesWhenAskedBeforeItWasRecorded) { EXPECT_DEATH(Event().done(), "never recorded"); }

TEST(Event, IsDoneOnceTheWorkBeforeItIsAndNotLater) {
  std::latch first_gate(1), second_gate(1);
  HostStream stream("s", 1);
  stream.enqueue([&](StreamContext&) { first_gate.wait(); });
  const Event first = stream.record();
  stream.enqueue([&](StreamContext&) { second_gate.wait(); });
  const Event second = stream.record();
  EXPECT_FALSE(first.done());
  first_gate.count_down();
  finish(first);
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  second_gate.count_down();
  finish(second);
  EXPECT_TRUE(second.done());
}

TEST(Event, IsCapturedByAWaitAsItWasThen) {
  std::latch first_gate(1), second_gate(1);
  bool ran = false;
  HostStream recorder("recorder", 1), waiter("waiter", 1);
  recorder.enqueue([&first_gate](StreamContext&) { first_gate.wait(); });
  Event event = recorder.record();
  waiter.wait(event);
  recorder.enqueue([&second_gate](StreamContext&) { second_gate.wait(); });
  event = recorder.record();  // a later record, of which the waiter knows nothing
  waiter.enqueue([&ran](StreamContext&) { ran = true; });
  first_gate.count_down();
  waiter.synchronize();
  EXPECT_TRUE(ran);
  EXPECT_FALSE(event.done());
  second_gate.count_down();
}

TEST(Event, OutlivesItsStream) {
  Event event;
  {
    HostStream stream("short", 1);
    event = stream.record();
  }
  const Event copy = event;
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(copy.done());
  HostStream later("later", 1);
  later.wait(copy);
  later.synchronize();
}

TEST(Work, CarriesWhatCanOnlyBeMoved) {
  int got = 0;
  HostStream stream("s", 1);
  stream.enqueue([&got, value = std::make_unique<int>(7)](StreamContext&) { got = *value; });
  stream.synchronize();
  EXPECT_EQ(got, 7);
}

TEST(Work, LetsGoOfWhatItCapturedAlsoWhenItIsDropped) {
  const auto captured = std::make_shared<int>(0);
  {
    HostStream stream("s", 1);
    stream.enqueue([captured](StreamContext&) { ++*captured; });
    stream.enqueue(fails_with(absl::AbortedError("no more")));
    stream.enqueue([captured](StreamContext&) { ++*captured; });
  }
  EXPECT_EQ(*captured, 1);
  EXPECT_EQ(captured.use_count(), 1);
}

TEST(Work, IsEmptyAfterAMove) {
  Work empty;
  EXPECT_FALSE(static_cast<bool>(empty));
  const auto captured = std::make_shared<int>(0);
  Work from = [captured](StreamContext&) {};
  Work to = std::move(from);
  EXPECT_FALSE(static_cast<bool>(from));  // NOLINT: that is what is asked
  EXPECT_TRUE(static_cast<bool>(to));
  EXPECT_EQ(captured.use_count(), 2);
  to = std::move(empty);
  EXPECT_FALSE(static_cast<bool>(to));
  EXPECT_EQ(captured.use_count(), 1);
}

}  // namespace
}  // namespace troupe::device
