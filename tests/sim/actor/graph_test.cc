// A producer, workers and a consumer as real actors in virtual time, over many seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/actor/sim_world.h"

namespace troupe::actor {
namespace {

struct Task {
  int number;
};
struct Result {
  int number;
  std::int64_t square;
};

class Producer final : public Actor {
 public:
  Producer(int workers, int tasks) : tasks_(tasks) {
    for (int i = 0; i < workers; ++i) {
      outs.push_back(std::make_unique<Out<Task>>(*this, "out" + std::to_string(i)));
      outs.back()->on_credit(&Producer::give);
    }
  }
  void started() override { give(); }
  void give() {
    for (auto& out : outs) {
      while (out->ready() && next < tasks_) out->send(Task{next++});
    }
  }
  std::vector<std::unique_ptr<Out<Task>>> outs;
  int next = 0;

 private:
  const int tasks_;
};

// Computes on a stream: the credit of a task goes back with the event after which its buffer is free.
class Worker final : public Actor {
 public:
  explicit Worker(device::Stream& stream) : stream_(stream) {
    on(&Worker::computed);
    out.on_credit(&Worker::flush);
  }
  void work(Delivery<Task> task) {
    const int number = task.message.number;
    stream_.enqueue([](device::StreamContext&) {});
    stream_.notify([result = Result{number, std::int64_t{number} * number},
                    to = self()](device::StreamContext&) { to.send(result); });
    task.credit.release(stream_.record());
  }
  void computed(Result result) {
    ready_.push_back(result);
    flush();
  }
  void flush() {
    while (!ready_.empty() && out.ready()) {
      const OutSlot slot = out.take();
      if (slot.reusable_after.recorded()) stream_.wait(slot.reusable_after);
      out.send(slot, ready_.front());
      ready_.erase(ready_.begin());
    }
  }
  In<Task> in{*this, "in", &Worker::work};
  Out<Result> out{*this, "out"};

 private:
  device::Stream& stream_;
  std::vector<Result> ready_;
};

class Consumer final : public Actor {
 public:
  explicit Consumer(int tasks) : seen(static_cast<std::size_t>(tasks), 0) { on(&Consumer::release); }
  struct Release {};
  void take(Delivery<Result> result) {
    ++seen[static_cast<std::size_t>(result.message.number)];
    sum += result.message.square;
    held.push_back(std::move(result.credit));
    send_after(std::chrono::microseconds(3), Release{});
  }
  void release(Release) {
    held.erase(held.begin());
    if (held.empty() && std::accumulate(seen.begin(), seen.end(), 0) == static_cast<int>(seen.size()))
      finish_job();
  }
  In<Result> in{*this, "in", &Consumer::take};
  std::vector<int> seen;
  std::vector<Credit> held;
  std::int64_t sum = 0;
};

struct Trial {
  Status status;
  std::uint64_t order;
  std::int64_t events, sum, now_ns;
  std::vector<int> seen;
};

constexpr int kWorkers = 3, kTasks = 40;

Trial run(std::uint64_t seed) {
  SimWorld world(seed);
  auto& producer = world.system().add<Producer>("producer", kWorkers, kTasks);
  auto& consumer = world.system().add<Consumer>("consumer", kTasks);
  for (int i = 0; i < kWorkers; ++i) {
    auto& stream = world.add_stream("device" + std::to_string(i), [i](std::uint64_t entry) {
      return 500 * (i + 1) + static_cast<std::int64_t>(37u * (entry % 5u));
    });
    auto& worker = world.system().add<Worker>("worker" + std::to_string(i), stream);
    connect(*producer.outs[static_cast<std::size_t>(i)], worker.in, {.credits = 1 + i});
    connect(worker.out, consumer.in, {.credits = 2});
  }
  world.after_each_event([&] {
    const auto snapshot = world.system().probes().snapshot();
    for (const auto& edge : snapshot.edges) {
      ASSERT_EQ(edge.free + edge.in_flight, edge.capacity)
          << edge.name << ", seed " << seed << ", event " << world.events();
      ASSERT_GE(edge.taken, edge.sent);
      ASSERT_GE(edge.sent, edge.delivered);
      ASSERT_GE(edge.delivered, edge.returned);
      ASSERT_GE(edge.returned, edge.reclaimed);
    }
    for (const auto& actor : snapshot.actors) {
      ASSERT_EQ(actor.sent, actor.handled + actor.dead + actor.depth) << actor.name << ", seed " << seed;
      if (actor.name == "supervisor") continue;
      // Law 4: the credits, a message per returned edge, and one of each kind of control message: start,
      // stop, and a timer or a computed result per credit held.
      const std::int64_t bound = world.system().mailbox_bound(world.system().find(actor.name));
      ASSERT_LE(actor.depth, 2 * bound + 2) << actor.name << ", seed " << seed;
    }
  });
  world.start();
  const Status status = world.run(100'000);
  return {status, world.order(), world.events(), consumer.sum, world.clock().now_ns(), consumer.seen};
}

// DESIGN laws 4 and 7.
TEST(Graph, KeepsItsCreditsUnderEveryOrderOfEvents) {
  std::int64_t expected = 0;
  for (int i = 0; i < kTasks; ++i) expected += std::int64_t{i} * i;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Trial result = run(seed);
    ASSERT_TRUE(result.status.ok()) << "seed " << seed << ": " << result.status;
    ASSERT_EQ(result.sum, expected) << "seed " << seed;
    ASSERT_THAT(result.seen, testing::Each(1)) << "seed " << seed;
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SimWorld, TheSameSeedIsTheSameOrder) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Trial one = run(seed), two = run(seed);
    EXPECT_EQ(one.order, two.order);
    EXPECT_EQ(one.events, two.events);
    EXPECT_EQ(one.now_ns, two.now_ns);
  }
}

TEST(SimWorld, AnotherSeedIsAnotherOrder) {
  std::vector<std::uint64_t> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) orders.push_back(run(seed).order);
  std::sort(orders.begin(), orders.end());
  EXPECT_EQ(std::unique(orders.begin(), orders.end()) - orders.begin(), 20);
}

// A bug that needs a certain order of events is found by some seed, and found again by the same.
class Fragile final : public Actor {
 public:
  struct Left {};
  struct Right {};
  Fragile() {
    on(&Fragile::left);
    on(&Fragile::right);
  }
  void left(Left) { seen_left_ = true; }
  void right(Right) {
    if (!seen_left_) fail(Status(absl::StatusCode::kInternal, "right before left"));
  }

 private:
  bool seen_left_ = false;
};
template <class M>
class Sender final : public Actor {
 public:
  explicit Sender(Ref to) : to_(std::move(to)) {}
  void started() override { send(to_, M{}); }

 private:
  Ref to_;
};
Status fragile(std::uint64_t seed) {
  SimWorld world(seed);
  auto& target = world.system().add<Fragile>("fragile");
  world.system().add<Sender<Fragile::Left>>("left", target.self());
  world.system().add<Sender<Fragile::Right>>("right", target.self());
  world.start();
  return world.run();
}
TEST(SimWorld, FindsAnOrderThatBreaksAnActorAndReproducesIt) {
  int failed = 0, passed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Status status = fragile(seed);
    ++(status.ok() ? passed : failed);
    EXPECT_EQ(fragile(seed).ok(), status.ok()) << "seed " << seed;
  }
  EXPECT_GT(failed, 5);
  EXPECT_GT(passed, 5);
}

TEST(SimWorld, RunsSeveralSystemsOnOneClock) {
  SimWorld world(3, 2);
  auto& target = world.system(1).add<Fragile>("fragile");
  world.system(0).add<Sender<Fragile::Left>>("left", target.self());
  world.start();
  EXPECT_TRUE(world.run().ok());
  EXPECT_EQ(target.probe().handled_count(), 2);
}

TEST(SimWorld, SaysWhenItRunsOutOfEvents) {
  class Restless final : public Actor {
   public:
    struct Again {};
    Restless() { on(&Restless::again); }
    void started() override { send(self(), Again{}); }
    void again(Again) { send(self(), Again{}); }
  };
  SimWorld world(3);
  world.system().add<Restless>("restless");
  world.start();
  const Status status = world.run(1000);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("seed 3"));
}

}  // namespace
}  // namespace troupe::actor
