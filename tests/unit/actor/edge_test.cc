#include "runtime/actor/edge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/actor/sim_world.h"

namespace troupe::actor {
namespace {

using testing::ElementsAre;

struct Batch {
  int value;
};
struct Push {
  int count;
};
struct ReleaseOldest {
  int count;
};

class Producer final : public Actor {
 public:
  Producer() {
    on(&Producer::push);
    out.on_credit(&Producer::credit_came_back);
  }
  void push(Push push) {
    wanted += push.count;
    credit_came_back();
  }
  void credit_came_back() {
    ++credit_messages;
    while (wanted > 0 && out.ready()) {
      OutSlot slot = out.take();
      slots.push_back(slot.index);
      events.push_back(slot.reusable_after);
      --wanted;
      out.send(slot, Batch{next++});
    }
    if (wanted > 0) set_state(trace::State::kWaitingForCredit, out.trace_name());
  }
  Out<Batch> out{*this, "batches"};
  int wanted = 0, next = 0, credit_messages = 0;
  std::vector<int> slots;
  std::vector<device::Event> events;
};

class Consumer final : public Actor {
 public:
  explicit Consumer(bool keep = false) : keeps_(keep) { on(&Consumer::release); }
  void take(Delivery<Batch> delivery) {
    seen.push_back(delivery.message.value);
    sequences.push_back(delivery.sequence);
    if (keeps_) kept.push_back(std::move(delivery.credit));
  }
  void release(ReleaseOldest release) {
    for (int i = 0; i < release.count; ++i) {
      kept.front().release(after);
      kept.erase(kept.begin());
    }
  }
  In<Batch> in{*this, "batches", &Consumer::take};
  std::vector<int> seen;
  std::vector<std::uint64_t> sequences;
  std::vector<Credit> kept;
  device::Event after;

 private:
  const bool keeps_;
};

struct EdgeTest : testing::Test {
  SimWorld world{21};
  Producer& producer = world.system().add<Producer>("producer");
  Consumer& keeper = world.system().add<Consumer>("keeper", true);

  void start(int credits) {
    connect(producer.out, keeper.in, {.credits = credits});
    world.start();
    ASSERT_TRUE(world.run().ok());
  }
};

// CASES A03, A04: the sender stops at its credits; the receiver's mailbox is bounded by them.
TEST_F(EdgeTest, SendsNoMoreThanItsCredits) {
  start(3);
  producer.self().send(Push{10});
  ASSERT_TRUE(world.run().ok());
  EXPECT_THAT(keeper.seen, ElementsAre(0, 1, 2));
  EXPECT_FALSE(producer.out.ready());
  EXPECT_EQ(producer.out.in_flight(), 3);
  const auto row = world.system().probes().find("producer")->row(world.system().probes().texts());
  EXPECT_EQ(row.state, trace::State::kWaitingForCredit);
  EXPECT_EQ(row.detail, "keeper.batches");
  keeper.self().send(ReleaseOldest{2});
  ASSERT_TRUE(world.run().ok());
  EXPECT_THAT(keeper.seen, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(keeper.sequences, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(EdgeTest, OneCreditMessageForManyCredits) {
  start(8);
  producer.self().send(Push{8});
  ASSERT_TRUE(world.run().ok());
  producer.credit_messages = 0;
  keeper.self().send(ReleaseOldest{8});
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(producer.credit_messages, 1);
  EXPECT_EQ(producer.out.free(), 8);
}

TEST_F(EdgeTest, ReusesTheSlotThatIsFreeTheLongest) {
  start(2);
  producer.self().send(Push{4});
  ASSERT_TRUE(world.run().ok());
  keeper.self().send(ReleaseOldest{1});
  ASSERT_TRUE(world.run().ok());
  keeper.self().send(ReleaseOldest{1});
  ASSERT_TRUE(world.run().ok());
  EXPECT_THAT(producer.slots, ElementsAre(0, 1, 0, 1));
}

TEST_F(EdgeTest, TellsAfterWhichEventASlotMayBeOverwritten) {
  auto& stream = world.add_stream("device");
  start(1);
  keeper.after = stream.record();
  producer.self().send(Push{2});
  ASSERT_TRUE(world.run().ok());
  keeper.self().send(ReleaseOldest{1});
  ASSERT_TRUE(world.run().ok());
  ASSERT_EQ(producer.events.size(), 2u);
  EXPECT_FALSE(producer.events[0].recorded());  // fresh
  ASSERT_TRUE(producer.events[1].recorded());
  EXPECT_EQ(producer.events[1].progress(), keeper.after.progress());
  EXPECT_EQ(producer.events[1].sequence(), keeper.after.sequence());
}

// CASES A32: nothing blocks; asking for more than the window is a bug at once.
TEST_F(EdgeTest, SendingWithoutACreditIsABug) {
  start(1);
  producer.self().send(Push{1});
  ASSERT_TRUE(world.run().ok());
  EXPECT_DEATH(producer.out.send(Batch{0}), "edge producer.batches -> keeper.batches: no credit left of 1");
}

TEST_F(EdgeTest, SendingASlotThatIsNotTakenIsABug) {
  start(2);
  EXPECT_DEATH(producer.out.send(OutSlot{0, {}}, Batch{0}), "slot 0 sent but not taken");
  EXPECT_DEATH(producer.out.send(OutSlot{5, {}}, Batch{0}), "slot 5 sent but not taken");
}

TEST_F(EdgeTest, ASlotCanBePutBack) {
  start(1);
  const OutSlot slot = producer.out.take();
  EXPECT_FALSE(producer.out.ready());
  producer.out.put_back(slot);
  EXPECT_TRUE(producer.out.ready());
  EXPECT_DEATH(producer.out.put_back(slot), "put back but not taken");
}

TEST_F(EdgeTest, AnUnconnectedPortIsABug) {
  EXPECT_FALSE(producer.out.connected());
  EXPECT_DEATH(producer.out.take(), "port 'producer.batches' is not connected");
}

TEST_F(EdgeTest, IsConnectedOnceAndBeforeTheStart) {
  EXPECT_DEATH(connect(producer.out, keeper.in, {.credits = 0}), "with 0 credits");
  connect(producer.out, keeper.in);
  EXPECT_DEATH(connect(producer.out, keeper.in), "port producer.batches is connected already");
  auto& late = world.system().add<Producer>("late");
  world.start();
  EXPECT_DEATH(connect(late.out, keeper.in), "the System has started");
}

TEST_F(EdgeTest, OnlyActorsOfOneSystemAreConnected) {
  SimWorld elsewhere(1);
  auto& stranger = elsewhere.system().add<Consumer>("stranger");
  EXPECT_DEATH(connect(producer.out, stranger.in), "must have been added to the same System");
  Consumer nowhere;
  EXPECT_DEATH(connect(producer.out, nowhere.in), "must have been added to the same System");
}

struct Forger final : Actor {
  struct Port : Out<Batch> {
    using Out<Batch>::Out;
    using Out<Batch>::begin_send;
    using Out<Batch>::shared_edge;
  };
  Port out{*this, "forged"};
};

TEST_F(EdgeTest, AJumpOfTheSequenceIsABug) {
  auto& forger = world.system().add<Forger>("forger");
  connect<Batch>(forger.out, keeper.in, {.credits = 2});
  world.start();
  world.settle();
  forger.out.begin_send(forger.out.take(), 0);
  EXPECT_DEATH(
      {
        detail::post(keeper.self().cell(), Delivery<Batch>{Batch{1}, Credit(forger.out.shared_edge(), 0), 7},
                     Lane::kNormal, nullptr);
        world.settle();
      },
      "edge forger.forged -> keeper.batches: message 7 arrived where 0 was due");
}

TEST_F(EdgeTest, SeveralSendersShareOnePort) {
  auto& second = world.system().add<Producer>("second");
  connect(second.out, keeper.in, {.credits = 4});
  start(2);
  producer.self().send(Push{2});
  second.self().send(Push{4});
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(keeper.seen.size(), 6u);
  EXPECT_EQ(keeper.in.edges(), 2);
  EXPECT_EQ(world.system().mailbox_bound(keeper.self()), 6);
  EXPECT_EQ(world.system().mailbox_bound(producer.self()), 1);
  keeper.self().send(ReleaseOldest{6});
  ASSERT_TRUE(world.run().ok());
  EXPECT_EQ(producer.out.free(), 2);
  EXPECT_EQ(second.out.free(), 4);
  // Urgent messages overtook others; each has its own time in the mailbox all the same.
  for (const auto& actor : world.system().probes().snapshot().actors) {
    EXPECT_EQ(std::accumulate(actor.in_mailbox.counts.begin(), actor.in_mailbox.counts.end(), std::int64_t{0}), actor.handled) << actor.name;
    EXPECT_EQ(std::accumulate(actor.in_handler.counts.begin(), actor.in_handler.counts.end(), std::int64_t{0}), actor.handled) << actor.name;
  }
}

TEST_F(EdgeTest, ADeadReceiverGivesTheCreditsBack) {
  struct Quit {};
  class Mortal final : public Actor {
   public:
    Mortal() { on(&Mortal::quit); }
    void quit(Quit) { stop(); }
    void take(Delivery<Batch>) {}
    In<Batch> in{*this, "in", &Mortal::take};
  };
  auto& mortal = world.system().add<Mortal>("mortal");
  connect(producer.out, mortal.in, {.credits = 2});
  world.start();
  mortal.self().send(Quit{});
  world.settle();
  producer.self().send(Push{5});
  world.settle();
  EXPECT_EQ(producer.next, 5);
  EXPECT_EQ(producer.out.free(), 2);
  const auto edge = world.system().probes().snapshot().edges.at(0);
  EXPECT_EQ(edge.sent, 5);
  EXPECT_EQ(edge.reclaimed, 5);
  EXPECT_EQ(edge.queued(), 0);
  EXPECT_EQ(edge.bytes, 5 * static_cast<std::int64_t>(sizeof(Batch)));
}

TEST(Edge, ACreditOutlivesItsSystem) {
  std::optional<Credit> credit;
  std::shared_ptr<const trace::EdgeProbe> edge;
  {
    SimWorld world(1);
    auto& producer = world.system().add<Producer>("producer");
    auto& keeper = world.system().add<Consumer>("keeper", true);
    connect(producer.out, keeper.in);
    world.start();
    producer.self().send(Push{1});
    world.settle();
    credit = std::move(keeper.kept.at(0));
    edge = world.system().probes().edges().at(0);
  }
  const auto returned = edge->row().returned;
  credit.reset();
  EXPECT_EQ(edge->row().returned, returned + 1);
}

// Credits dropped by foreign threads, as enqueued work does; all of them come back.
TEST(Edge, TakesCreditsBackFromAnyThread) {
  constexpr int kCount = 20'000, kCredits = 16;
  // A test's lock between an actor and a thread that is none; programs post messages instead.
  struct Shelf {
    std::mutex mutex;
    std::vector<Credit> credits;
    std::vector<Credit> take_all() {
      std::lock_guard lock(mutex);
      return std::exchange(credits, {});
    }
  } shelf;
  class Scatter final : public Actor {
   public:
    explicit Scatter(Shelf& shelf) : shelf_(shelf) {}
    void take(Delivery<Batch> delivery) {
      {
        std::lock_guard lock(shelf_.mutex);
        shelf_.credits.push_back(std::move(delivery.credit));
      }
      if (delivery.sequence + 1 == kCount) stop();
    }
    In<Batch> in{*this, "in", &Scatter::take};

   private:
    Shelf& shelf_;
  };
  class Pusher final : public Actor {
   public:
    Pusher() { out.on_credit(&Pusher::push); }
    void started() override { push(); }
    void push() {
      while (sent < kCount && out.ready()) {
        out.send(Batch{sent++});
      }
      if (sent == kCount && out.in_flight() == 0) stop();
    }
    Out<Batch> out{*this, "out"};
    int sent = 0;
  };
  std::atomic<bool> done{false};
  {
    System system({.threads = 2});
    auto& scatter = system.add<Scatter>("scatter", shelf);
    auto& pusher = system.add<Pusher>("pusher");
    connect(pusher.out, scatter.in, {.credits = kCredits});
    std::thread stranger([&] {
      while (!done.load()) {
        if (shelf.take_all().empty()) std::this_thread::yield();  // what was taken dies here
      }
    });
    system.start();
    EXPECT_TRUE(system.wait().ok());
    done.store(true);
    stranger.join();
    EXPECT_EQ(pusher.out.free(), kCredits);
    const auto edge = system.probes().snapshot().edges.at(0);
    EXPECT_EQ(edge.sent, kCount);
    EXPECT_EQ(edge.returned, kCount);
    EXPECT_EQ(edge.free + edge.in_flight, edge.capacity);
    EXPECT_LE(scatter.probe().depth_max(),
              system.mailbox_bound(scatter.self()) + 2);  // and StartRequested, StopNow
  }
}

}  // namespace
}  // namespace troupe::actor
