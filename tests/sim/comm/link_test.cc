// Messages between processes over the simulated network: of any size, in order, whether a bulk comes with its frame or is offered, and up
// to the first gap when a peer is lost.
#include "actors/control/link.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/sim/sim_network.h"
#include "runtime/actor/sim_world.h"
#include "runtime/base/log.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"

namespace troupe::test {
namespace {

using namespace actors;

constexpr int kMessages = 60;

class Hearer final : public actor::Actor {
 public:
  Hearer() { on(&Hearer::take); }
  std::vector<StepFed> got;

 private:
  void take(StepFed message) { got.push_back(std::move(message)); }
};

// The number of what message `i` carries: none, around a header's limit, a mebibyte.
std::size_t length_of(std::uint64_t seed, int i) {
  Draws draws(seed, 100 + i);
  constexpr std::size_t kLimit = (4096 - 4 - 6 - 32) / 4;
  const std::size_t lengths[] = {0, 0, kLimit - 1, kLimit, kLimit + 1, 5'000, std::size_t{1} << 18};
  return lengths[draws.below(7)];
}

struct LinkWorld {
  LinkWorld(std::uint64_t seed, FaultKind kind) : sim(seed, 0) {
    Draws draws(seed, 9);
    network = std::make_unique<comm::SimNetwork>(
        sim.clock(), comm::SimNetworkOptions{.world = 2, .seed = seed, .eager_bytes_most = draws.one_in(2) ? 0u : 8'192u});
    sim.add(*network);
    fault = Fault::draw(kind, draws, 2, 3'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      transports[rank] = network->transport(Rank(static_cast<std::int32_t>(rank)));
      links[rank] = std::make_unique<Link>(*transports[rank]);
      systems[rank] = std::make_unique<actor::System>(sim.options());
      sim.drive(*systems[rank], [this, rank] { return network->runs(Rank(static_cast<std::int32_t>(rank))); });
    }
    hearer = &systems[1]->add<Hearer>("ledger");
    links[1]->expose("ledger", hearer->self());
    const auto remote = links[0]->remote(*systems[0], Rank(1), "ledger");
    for (std::size_t rank = 0; rank < 2; ++rank) {
      systems[rank]->start();
      EXPECT_TRUE(transports[rank]->start().ok());
    }
    for (int i = 0; i < kMessages; ++i) {
      network->at(draws.below(50'000) + i * 50'000, [remote, seed, i] {
        remote.send(StepFed{StepId(i), 0, 0, 0, std::vector<std::int32_t>(length_of(seed, i), i)});
      });
    }
    fault.schedule(*network);
  }
  ~LinkWorld() {
    for (auto& transport : transports) transport->stop();
    for (auto& system : systems) system.reset();
  }
  // What came is the beginning of what was sent, each as it was.
  void expect_a_beginning(std::uint64_t seed) const {
    for (std::size_t i = 0; i < hearer->got.size(); ++i) {
      const auto& came = hearer->got[i];
      const int number = static_cast<int>(i);
      ASSERT_EQ(came.step, StepId(number));
      ASSERT_EQ(came.pulled, std::vector<std::int32_t>(length_of(seed, number), number));
    }
  }

  actor::SimWorld sim;
  std::unique_ptr<comm::SimNetwork> network;
  Fault fault;
  std::unique_ptr<comm::Transport> transports[2];
  std::unique_ptr<Link> links[2];
  std::unique_ptr<actor::System> systems[2];
  Hearer* hearer = nullptr;
};

class LinkSim : public testing::Test {
 protected:
  LinkSim() { set_log_level(LogLevel::kError); }
  ~LinkSim() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(LinkSim, BringsMessagesOfEverySizeInOrderWhateverIsSlow) {
  const std::uint64_t count = seeds(60, 10);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    LinkWorld world(seed, static_cast<FaultKind>(seed % 4));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", world.fault.describe()));
    ASSERT_TRUE(world.sim.run(1'000'000, [&] { return world.hearer->got.size() == kMessages; }).ok());
    ASSERT_EQ(world.hearer->got.size(), static_cast<std::size_t>(kMessages));
    world.expect_a_beginning(seed);
    if (HasFailure()) return;
  }
}

TEST_F(LinkSim, ALostPeersMessagesEndAtTheFirstGap) {
  const FaultKind kinds[] = {FaultKind::kCrash, FaultKind::kCut, FaultKind::kLongPause};
  const std::uint64_t count = seeds(60, 10);
  std::size_t cut_short = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    LinkWorld world(seed, kinds[seed % 3]);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", world.fault.describe()));
    (void)world.sim.run(1'000'000);
    world.expect_a_beginning(seed);
    if (HasFailure()) return;
    cut_short += world.hearer->got.size() < kMessages;
  }
  EXPECT_GT(cut_short, count / 3);
}

}  // namespace
}  // namespace troupe::test
