#include "comm/local/local_transport.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <thread>

#include "runtime/base/first_cause.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }
std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A value that another thread will give.
template <class T>
class Awaited {
 public:
  void give(T value) { promise_.set_value(std::move(value)); }
  T get() {
    auto future = promise_.get_future();
    if (future.wait_for(20s) != std::future_status::ready) throw std::runtime_error("nothing came");
    return future.get();
  }

 private:
  std::promise<T> promise_;
};

struct Two {
  LocalHub hub{2};
  std::unique_ptr<Transport> a = hub.transport(Rank(0)), b = hub.transport(Rank(1));
  void start() {
    ASSERT_TRUE(a->start().ok());
    ASSERT_TRUE(b->start().ok());
  }
};

TEST(LocalTransport, FetchesStraightFromTheSender) {
  Two two;
  const std::string bulk(100'000, 'x');
  std::string into(bulk.size(), '.');
  Awaited<Status> fetched, sent;
  two.b->handle(Channel::kTest, [&](Arrival arrival) {
    EXPECT_EQ(arrival.from(), Rank(0));
    EXPECT_EQ(text_of(arrival.header()), "head");
    ASSERT_EQ(arrival.bulk_bytes(), 100'000);
    arrival.fetch(reinterpret_cast<std::byte*>(into.data()), [&](Status status) { fetched.give(status); });
  });
  two.start();
  const std::string header = "head";
  two.a->send({.to = Rank(1), .channel = Channel::kTest, .lane = Lane::kBulk, .header = bytes_of(header), .bulk = bytes_of(bulk),
               .sent = [&](Status status) {
                 EXPECT_TRUE(two.a->on_progress_thread());
                 sent.give(status);
               }});
  EXPECT_TRUE(fetched.get().ok());
  EXPECT_TRUE(sent.get().ok());
  EXPECT_EQ(into, bulk);
  EXPECT_EQ(two.a->counters().bulk_bytes_sent, 100'000);
  EXPECT_EQ(two.b->counters().bulk_bytes_received, 100'000);
}

TEST(LocalTransport, KeepsTheOrderOfFrames) {
  Two two;
  std::vector<std::string> came;
  Awaited<bool> all;
  two.b->handle(Channel::kTest, [&](Arrival arrival) {
    came.push_back(text_of(arrival.header()));
    if (came.size() == 1000) all.give(true);
  });
  two.start();
  for (int i = 0; i < 1000; ++i) {
    const std::string header = std::to_string(i);
    two.a->send({.to = Rank(1), .header = bytes_of(header)});
  }
  all.get();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(came[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST(LocalTransport, ARefusedBulkTellsTheSender) {
  Two two;
  two.b->handle(Channel::kTest, [](Arrival) {});
  two.start();
  const std::string bulk = "not wanted";
  Awaited<Status> sent;
  two.a->send({.to = Rank(1), .bulk = bytes_of(bulk), .sent = [&](Status status) { sent.give(status); }});
  EXPECT_EQ(sent.get().code(), absl::StatusCode::kCancelled);
}

TEST(LocalTransport, AFrameWithoutHandlerIsRefusedAndCounted) {
  Two two;
  two.start();
  Awaited<Status> sent;
  const std::string bulk = "x";
  two.a->send({.to = Rank(1), .channel = Channel::kEdges, .bulk = bytes_of(bulk), .sent = [&](Status status) { sent.give(status); }});
  EXPECT_EQ(sent.get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(two.b->counters().refused, 1);
}

TEST(LocalTransport, StopCompletesWhatIsOpen) {
  Two two;
  std::vector<Arrival> kept;
  Awaited<bool> came;
  two.b->handle(Channel::kTest, [&](Arrival arrival) {
    kept.push_back(std::move(arrival));
    came.give(true);
  });
  two.start();
  const std::string bulk = "kept by the receiver";
  Awaited<Status> sent;
  two.a->send({.to = Rank(1), .bulk = bytes_of(bulk), .sent = [&](Status status) { sent.give(status); }});
  came.get();
  two.a->stop();
  EXPECT_EQ(sent.get().code(), absl::StatusCode::kUnavailable);
  kept.clear();
}

TEST(LocalTransport, ARankThatStopsIsReported) {
  Two two;
  Awaited<std::string> down;
  two.b->on_peer_down([&](Rank rank, const Status& cause) { down.give(std::to_string(rank.value) + ": " + std::string(cause.message())); });
  two.start();
  two.a->stop();
  EXPECT_EQ(down.get(), "0: rank 0 is down: it stopped its transport");
}

TEST(LocalTransport, ARankThatFailsSaysWhy) {
  Two two;
  Awaited<Status> down;
  two.b->on_peer_down([&](Rank, const Status& cause) { down.give(cause); });
  two.start();
  two.a->stop(absl::DataLossError("the checkpoint is torn"));
  const Status cause = down.get();
  EXPECT_EQ(cause.message(), "rank 0 is down: the checkpoint is torn");
  ASSERT_TRUE(first_cause(cause));
  EXPECT_EQ(first_cause(cause)->rank, Rank(0));
}

TEST(LocalTransport, ACutRankIsReportedAndNotReached) {
  Two two;
  Awaited<std::string> down;
  two.b->on_peer_down([&](Rank rank, const Status& cause) { down.give(std::to_string(rank.value) + " " + std::string(cause.message())); });
  two.start();
  two.hub.cut(Rank(0), absl::UnavailableError("the cable was pulled"));
  EXPECT_EQ(down.get(), "0 the cable was pulled");
  Awaited<Status> sent;
  two.b->send({.to = Rank(0), .sent = [&](Status status) { sent.give(status); }});
  EXPECT_EQ(std::string(sent.get().message()), "the cable was pulled");
}

// What was sent and not fetched when a rank goes ends with the cause; what is fetched then touches nothing.
TEST(LocalTransport, ACutEndsWhatIsOpen) {
  Two two;
  std::vector<Arrival> kept;
  Awaited<bool> came;
  two.b->handle(Channel::kTest, [&](Arrival arrival) {
    kept.push_back(std::move(arrival));
    came.give(true);
  });
  two.start();
  auto bulk = std::make_unique<std::string>(50'000, 'x');
  Awaited<Status> sent, fetched;
  two.a->send({.to = Rank(1), .bulk = bytes_of(*bulk), .sent = [&](Status status) { sent.give(status); }});
  came.get();
  two.hub.cut(Rank(1), absl::UnavailableError("the cable was pulled"));
  EXPECT_EQ(std::string(sent.get().message()), "the cable was pulled");
  bulk.reset();
  std::string into(50'000, '.');
  two.b->post([&] { kept.front().fetch(reinterpret_cast<std::byte*>(into.data()), [&](Status status) { fetched.give(status); }); });
  EXPECT_FALSE(fetched.get().ok());
  EXPECT_EQ(into, std::string(50'000, '.'));
}

TEST(LocalTransport, WhatIsSentAfterTheStopIsDropped) {
  Two two;
  two.start();
  two.a->stop();
  std::atomic<int> called{0};
  const auto count = [&](const Status&) { ++called; };
  const std::string bulk(10'000, 'x');
  two.a->send({.to = Rank(1), .sent = count});
  two.a->send({.to = Rank(0), .bulk = bytes_of(bulk), .sent = count});
  two.a->post([&] { ++called; });
  two.b->stop();
  two.a.reset();
  EXPECT_EQ(called, 0) << "nothing is called after the stop";
}

}  // namespace
}  // namespace troupe::comm
