// Messages that were sent are handled, wait, or are dead, also where actors crash: counted by those who send and handle, over many seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "runtime/actor/sim_world.h"
#include "tests/sim/seeds.h"

namespace troupe::actor {
namespace {

struct Gossip {
  int left = 0;
};
struct Parcelled {
  int left = 0;
};

// What the test itself has seen, by the receiver's name.
struct Ledgered {
  std::map<std::string, std::int64_t> gossip_sent, gossip_handled, parcels_sent, parcels_handled;
};

// Passes on what comes, by message and by edge, until its `crash_at`th message.
class Gossiper final : public Actor {
 public:
  Gossiper(Ledgered& seen, int crash_at) : seen_(seen), crash_at_(crash_at) {
    on(&Gossiper::came);
    out.on_credit(&Gossiper::flush);
  }
  In<Parcelled> in{*this, "in", &Gossiper::parcel_came};
  Out<Parcelled> out{*this, "out"};
  Ref friend_;          // by message
  std::string beyond_;  // whom the edge goes to
  int first = 0;

 private:
  void started() override { pass_on(first); }
  void came(Gossip gossip) {
    ++seen_.gossip_handled[name()];
    handled(gossip.left);
  }
  void parcel_came(Delivery<Parcelled> parcel) {
    ++seen_.parcels_handled[name()];
    handled(parcel.message.left);
  }
  void handled(int left) {
    if (++handled_ == crash_at_) return fail(absl::InternalError("planted"));
    pass_on(left);
  }
  void pass_on(int left) {
    if (left <= 0) return;
    ++seen_.gossip_sent[friend_.name()];
    send(friend_, Gossip{left - 1});
    waiting_.push_back(left - 1);
    flush();
  }
  void flush() {
    while (!waiting_.empty() && out.ready()) {
      ++seen_.parcels_sent[beyond_];
      out.send(Parcelled{waiting_.back()});
      waiting_.pop_back();
    }
  }
  Ledgered& seen_;
  const int crash_at_;
  int handled_ = 0;
  std::vector<int> waiting_;
};

std::int64_t of_type(const auto& rows, std::string_view type, auto member) {
  std::int64_t count = 0;
  for (const auto& row : rows) {
    if (row.type.find(type) != std::string::npos) count += member(row);
  }
  return count;
}
std::int64_t handled_in(const trace::ActorRow& row, std::string_view type) {
  return of_type(row.messages, type, [](const trace::MessageCount& m) { return m.handled; });
}
std::int64_t dead_in(const auto& row, std::string_view type) {
  return of_type(row.dead_letters, type, [](const trace::DeadLetterCount& m) { return m.count; });
}

TEST(Counts, AddUpOverACrash) {
  constexpr int kActors = 4;
  std::int64_t crashes = 0, dead_letters = 0;
  const auto count = static_cast<std::int64_t>(test::seeds(100, 20));
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(count); ++seed) {
    Ledgered seen;
    SimWorld world(seed, 1, {.stop_on_failure = false});
    std::vector<Gossiper*> all;
    for (int i = 0; i < kActors; ++i) {
      const bool crashes_here = i == static_cast<int>(seed % kActors);
      all.push_back(&world.system().add<Gossiper>("actor" + std::to_string(i), seen, crashes_here ? 2 + static_cast<int>(seed % 7) : 0));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& next = *all[(i + 1) % all.size()];
      all[i]->friend_ = all[(i + 2) % all.size()]->self();
      all[i]->beyond_ = next.name();
      all[i]->first = i == seed % 3 ? 6 : 2;
      connect(all[i]->out, next.in, {.credits = 1 + static_cast<int>(i)});
    }
    const auto check = [&] {
      const auto snapshot = world.system().probes().snapshot();
      const std::string where = "seed " + std::to_string(seed) + ", event " + std::to_string(world.events());
      std::map<std::string, std::int64_t> edge_sent, edge_delivered;
      for (const auto& edge : snapshot.edges) {
        const std::string to = edge.to.substr(0, edge.to.find('.'));
        edge_sent[to] += edge.sent;
        edge_delivered[to] += edge.delivered;
        ASSERT_EQ(edge.sent, seen.parcels_sent[to]) << edge.name << ", " << where;
        ASSERT_EQ(edge.free + edge.in_flight, edge.capacity) << edge.name << ", " << where;
      }
      for (const auto& row : snapshot.actors) {
        ASSERT_EQ(row.sent - row.handled - row.dead, static_cast<std::int64_t>(row.waiting.size())) << row.name << ", " << where;
        if (!row.name.starts_with("actor")) continue;
        ASSERT_EQ(handled_in(row, "Gossip"), seen.gossip_handled[row.name]) << row.name << ", " << where;
        ASSERT_EQ(handled_in(row, "Parcelled"), seen.parcels_handled[row.name]) << row.name << ", " << where;
        ASSERT_EQ(edge_delivered[row.name], seen.parcels_handled[row.name] + dead_in(row, "Parcelled")) << row.name << ", " << where;
        // In its mailbox; beside these there are returned credits.
        const std::int64_t gossip = seen.gossip_sent[row.name] - seen.gossip_handled[row.name] - dead_in(row, "Gossip");
        const std::int64_t parcels = edge_sent[row.name] - edge_delivered[row.name];
        ASSERT_TRUE(gossip >= 0 && parcels >= 0 && gossip + parcels <= static_cast<std::int64_t>(row.waiting.size())) << row.name << ", " << where;
      }
      for (const auto& stone : snapshot.tombstones) {  // no mailbox is left
        ASSERT_EQ(stone.sent, stone.handled + stone.dead) << stone.name << ", " << where;
        if (!stone.name.starts_with("actor")) continue;
        ASSERT_EQ(seen.gossip_sent[stone.name], seen.gossip_handled[stone.name] + dead_in(stone, "Gossip")) << stone.name << ", " << where;
        ASSERT_EQ(edge_sent[stone.name], edge_delivered[stone.name]) << stone.name << ", " << where;
      }
    };
    world.after_each_event(check);
    world.start();
    (void)world.run(100'000);
    if (testing::Test::HasFatalFailure()) return;
    for (const auto& row : world.system().probes().snapshot().actors) {  // nothing is on its way any more
      if (!row.name.starts_with("actor")) continue;
      ASSERT_EQ(row.sent, row.handled + row.dead) << row.name << ", seed " << seed;
      ASSERT_EQ(seen.gossip_sent[row.name], seen.gossip_handled[row.name]) << row.name << ", seed " << seed;
      ASSERT_EQ(seen.parcels_sent[row.name], seen.parcels_handled[row.name]) << row.name << ", seed " << seed;
    }
    for (const auto& stone : world.system().probes().snapshot().tombstones) {
      crashes += stone.cause.find("planted") != std::string::npos;
      dead_letters += dead_in(stone, "Gossip") + dead_in(stone, "Parcelled");
    }
  }
  EXPECT_GT(2 * crashes, count);
  EXPECT_GT(2 * dead_letters, count);  // of some of these
}

}  // namespace
}  // namespace troupe::actor
