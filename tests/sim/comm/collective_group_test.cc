// The actor in front of a group of ranks, and a group of one.
#include "actors/control/collective_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "comm/collective/wire.h"
#include "runtime/actor/sim_world.h"
#include "runtime/base/log.h"
#include "tests/sim/comm/by_hand.h"

namespace troupe::test {
namespace {

using actors::CollectiveDone, actors::CollectiveGroup, actors::CollectiveRequested;
using comm::Collective, comm::CollectiveKind, comm::GroupId, comm::OperationId, comm::Parts;
using device::DType;

class Asker final : public actor::Actor {
 public:
  Asker() { on(&Asker::done); }
  std::vector<std::int64_t> ended;

 private:
  void done(CollectiveDone message) { ended.push_back(message.operation.value); }
};

// Rank 0's group of itself and rank 1, which is spoken for by hand.
class GroupOfTwo : public testing::Test {
 protected:
  GroupOfTwo() {
    set_log_level(LogLevel::kError);
    engine_.add_group(GroupId(1), {Rank(0), Rank(1)});
    world_.add(*hand_.network);
    hand_.start();
    world_.start();
  }
  ~GroupOfTwo() override {
    hand_.stop();
    set_log_level(LogLevel::kInfo);
  }
  void ask(std::int64_t operation, std::vector<float>& values) {
    group_.self().send(CollectiveRequested{OperationId(operation),
                                           {.kind = CollectiveKind::kAllReduce, .data = reinterpret_cast<std::byte*>(values.data()),
                                            .parts = Parts::equal(static_cast<std::int64_t>(values.size()), 2), .what = "gradient of block 2"},
                                           asker_.self()});
    (void)world_.run();
    hand_.take(1);
    (void)world_.run();
  }
  void say(std::int64_t operation, const std::vector<float>& values) {
    const auto count = static_cast<std::int64_t>(values.size());
    hand_.send(1, comm::encode({.group = GroupId(1), .operation = OperationId(operation), .kind = CollectiveKind::kAllReduce, .phase = comm::Phase::kAddend,
                                .from = 1, .elements = count, .count = count}), std::as_bytes(std::span(values)));
    (void)world_.run();
  }

  actor::SimWorld world_{4};
  ByHand hand_{2, comm::Channel::kCollectives, &world_.clock()};
  comm::CollectiveEngine engine_{hand_.transport()};
  Asker& asker_ = world_.system().add<Asker>("asker");
  CollectiveGroup& group_ = world_.system().add<CollectiveGroup>("replicas", engine_, GroupId(1));
};

TEST_F(GroupOfTwo, TellsWhoAskedWhenItIsDone) {
  std::vector<float> values{1, 2, 3};
  ask(9, values);
  EXPECT_TRUE(asker_.ended.empty());
  say(9, {10, 20, 30});
  EXPECT_THAT(asker_.ended, testing::ElementsAre(9));
  EXPECT_THAT(values, testing::ElementsAre(11, 22, 33));
}

TEST_F(GroupOfTwo, FailsWithTheGroupAndTellsNobodyThatItIsDone) {
  std::vector<float> values{1, 2, 3};
  ask(9, values);
  say(9, {10, 20});
  EXPECT_TRUE(asker_.ended.empty());
  EXPECT_THAT(std::string(world_.system().outcome().message()),
              testing::AllOf(testing::HasSubstr("all members must call the same"), testing::HasSubstr("gradient of block 2")));
}

// CASES T38: a sum over one is what it was, bit by bit, whatever its values: nothing is scaled, nothing is sent.
TEST(GroupOfOne, IsTheIdentity) {
  for (const auto type : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t elements : {0, 1, 4'096, 300'001}) {
      for (int kind = 0; kind < 6; ++kind) {
        ByHand alone(1, comm::Channel::kCollectives);
        comm::CollectiveEngine engine(alone.transport());
        engine.add_group(GroupId(1), {Rank(0)});
        alone.start();
        const auto of = static_cast<CollectiveKind>(kind);
        const std::int64_t size = device::size_bytes(type);
        std::vector<std::byte> bytes(static_cast<std::size_t>(elements * size));
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
        // every pattern but the not-a-numbers, which no sum keeps
        for (std::size_t i = static_cast<std::size_t>(size) - 1; i < bytes.size(); i += static_cast<std::size_t>(size)) bytes[i] &= std::byte{0xbf};
        const auto before = bytes;
        std::vector<std::byte> into(of == CollectiveKind::kAllToAll ? bytes.size() : 0);
        Collective what{.kind = of, .type = type, .data = into.empty() ? bytes.data() : into.data(), .parts = {.boundaries = {0, elements}}, .what = "alone"};
        if (of == CollectiveKind::kAllToAll) what.from = bytes.data(), what.from_parts = what.parts;
        std::optional<Status> end;
        engine.start(GroupId(1), OperationId(1), std::move(what), [&](const Status& status) { end = status; });
        alone.run();
        EXPECT_EQ(end, ok());
        EXPECT_TRUE((into.empty() ? bytes : into) == before) << comm::name(of) << " of " << elements << " x " << device::name(type);
        EXPECT_EQ(alone.transport().counters().frames_sent, 0);
        alone.stop();
      }
    }
  }
}

// CASES T46: sums of bf16 are made in fp32, so their error does not grow with the number of ranks: one rounding, or two over nodes.
TEST(GroupOfMany, RoundsASumOnceHoweverManyRanksThereAre) {
  using device::bfloat16;
  constexpr std::int64_t kElements = 3'000;
  for (const int ranks : {2, 12, 48}) {
    for (const int per_node : {ranks, 8}) {
      for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
        VirtualClock clock;
        comm::SimNetwork network(clock, {.world = ranks, .seed = 2});
        std::vector<Rank> members;
        std::vector<int> nodes;
        for (int rank = 0; rank < ranks; ++rank) members.push_back(Rank(rank)), nodes.push_back(rank / per_node);
        std::vector<std::unique_ptr<comm::Transport>> transports;
        std::vector<std::unique_ptr<comm::CollectiveEngine>> engines;
        std::vector<std::vector<bfloat16>> values(members.size(), std::vector<bfloat16>(kElements));
        std::vector<double> exact(kElements);
        Draws draws(static_cast<std::uint64_t>(ranks), 46);
        int ended = 0;
        const auto parts = Parts::equal(kElements, ranks);
        for (const Rank rank : members) {
          auto& mine = values[static_cast<std::size_t>(rank.value)];
          for (std::size_t i = 0; i < mine.size(); ++i) {
            mine[i] = bfloat16(static_cast<float>(1'000 + draws.below(1'000)) * 1e-3f);
            exact[i] += static_cast<double>(static_cast<float>(mine[i]));
          }
          transports.push_back(network.transport(rank));
          engines.push_back(std::make_unique<comm::CollectiveEngine>(*transports.back()));
          engines.back()->add_group(GroupId(1), members, nodes);
        }
        for (const Rank rank : members) {
          const auto at = static_cast<std::size_t>(rank.value);
          ASSERT_TRUE(transports[at]->start().ok());
          engines[at]->start(GroupId(1), OperationId(1), {.kind = kind, .type = DType::kBF16, .data = reinterpret_cast<std::byte*>(values[at].data()), .parts = parts},
                             [&](const Status& status) { ended += status.ok() ? 1 : 0; });
        }
        ASSERT_TRUE(test::run(clock, network));
        EXPECT_EQ(ended, ranks);
        double worst = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const bool all = kind == CollectiveKind::kAllReduce;
          for (std::int64_t i = all ? 0 : parts.begin(rank); i < (all ? kElements : parts.end(rank)); ++i) {
            const double got = static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)]));
            worst = std::max(worst, std::abs(got / exact[static_cast<std::size_t>(i)] - 1));
          }
        }
        const double rounding = 1.0 / 256;  // half a unit of 8 bits
        EXPECT_LE(worst, per_node < ranks ? 2.05 * rounding : 1.02 * rounding) << ranks << " ranks, " << per_node << " on a node";
        for (auto& transport : transports) transport->stop();
      }
    }
  }
}

}  // namespace
}  // namespace troupe::test
