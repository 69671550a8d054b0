// Edges between processes over the simulated network: what an edge promises, on every seed, whatever befalls the ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "comm/sim/sim_network.h"
#include "runtime/actor/sim_world.h"
#include "runtime/base/log.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"
#include "tests/support/far_traffic.h"

namespace troupe::test {
namespace {

constexpr std::int64_t kTrafficNs = 3'000'000;

device::SimStream::Cost far_cost(std::uint64_t seed, std::int32_t use) {
  const RandomStream random({.seed = seed, .use = use});
  return [random](std::uint64_t entry) { return static_cast<std::int64_t>(random.at(entry)) % 20'000; };
}

// Two processes in one deterministic world.
struct FarWorld {
  FarWorld(std::uint64_t seed, FaultKind kind, FarTrafficOptions traffic) : options(traffic), sim(seed, 0) {
    Draws draws(seed, 8);
    network = std::make_unique<comm::SimNetwork>(
        sim.clock(), comm::SimNetworkOptions{.world = 2, .seed = seed, .eager_bytes_most = draws.one_in(2) ? 0u : 8'192u,
                                             .told_of_a_crash = draws.one_in(2) ? 0 : 0.5});
    sim.add(*network);
    fault = Fault::draw(kind, draws, 2, kTrafficNs, comm::SimNetworkOptions().heartbeat_timeout_ns);
    for (int rank = 0; rank < 2; ++rank) {
      transports[rank] = network->transport(Rank(rank));
      systems[rank] = std::make_unique<actor::System>(sim.options());
      const auto runs = [this, rank] { return network->runs(Rank(rank)); };
      for (const std::string name : {"compute", "edges"}) {
        streams.push_back(std::make_unique<device::SimStream>(name, sim.clock(), far_cost(seed, rank * 2 + (name == "edges"))));
        sim.add(*streams.back(), runs);
      }
      processes[rank] = std::make_unique<FarTrafficProcess>(options, *transports[rank], *systems[rank],
                                                            *streams[streams.size() - 2], *streams.back(), board);
      sim.drive(*systems[rank], runs);
      network->at(draws.below(kTrafficNs / 10), [this, rank] {
        started[rank] = true;
        systems[rank]->start();
        EXPECT_TRUE(transports[rank]->start().ok());
      });
    }
    fault.schedule(*network);
    sim.after_each_event([this] { look(); });
  }
  ~FarWorld() {
    for (auto& transport : transports) transport->stop();
    for (auto& system : systems) system.reset();  // before what its actors use
  }

  // After every event: no more is under way than there are credits, and a slot is back nowhere before it is back further down.
  void look() {
    for (auto& transport : transports) {  // as TrainingJob::wait does
      const auto rank = static_cast<std::size_t>(transport->rank().value);
      if (actor::SimWorld::has_ended(*systems[rank]) && !left[rank] && started[rank]) {
        left[rank] = true;
        ended_ns[rank] = sim.clock().now_ns();
        transport->stop();
      }
    }
    if (!broken.empty()) return;
    const auto rows = [this](int rank, const std::string& part) {
      for (const auto& edge : systems[rank]->probes().edges()) {
        if (edge->name.find(part) != std::string::npos) return edge->row();
      }
      return trace::EdgeRow{};
    };
    for (int rank = 0; rank < 2; ++rank) {
      const auto from = rows(rank, "feeder.out"), to = rows(1 - rank, "drain.in");
      const bool good = from.in_flight <= options.credits && to.sent <= from.sent && from.returned <= to.returned &&
                        from.sent - to.returned <= options.credits;
      if (good) continue;
      broken = absl::StrCat("from rank ", rank, ": sent ", from.sent, ", came ", to.sent, ", released ", to.returned, ", back ",
                            from.returned);
    }
  }

  const FarTrafficOptions options;
  FarTrafficBoard board;
  actor::SimWorld sim;
  std::unique_ptr<comm::SimNetwork> network;
  Fault fault;
  std::unique_ptr<comm::Transport> transports[2];
  std::vector<std::unique_ptr<device::SimStream>> streams;
  std::unique_ptr<FarTrafficProcess> processes[2];
  std::unique_ptr<actor::System> systems[2];
  std::string broken;
  bool started[2] = {false, false}, left[2] = {false, false};
  std::int64_t ended_ns[2] = {-1, -1};
};

class FarEdge : public testing::Test {
 protected:
  FarEdge() { set_log_level(LogLevel::kError); }
  ~FarEdge() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(FarEdge, KeepsItsPromisesWhateverIsSlow) {
  const std::uint64_t count = seeds(400, 60);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const FarTrafficOptions traffic{.credits = 1 + static_cast<int>(seed / 4 % 5), .elements = seed % 2 ? 100 : 4'000, .seed = seed};
    FarWorld world(seed, static_cast<FaultKind>(seed % 4), traffic);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", world.fault.describe()));
    ASSERT_TRUE(world.sim.run(1'000'000, [&] { return world.board.done == 4; }).ok());
    ASSERT_EQ(world.board.done, 4);
    ASSERT_EQ(world.board.received, 2 * traffic.messages);
    ASSERT_EQ(world.board.wrong, 0);
    ASSERT_EQ(world.broken, "");
    if (HasFailure()) return;
  }
}

TEST_F(FarEdge, FailsBothEndsWhenAPeerIsLost) {
  const FaultKind kinds[] = {FaultKind::kCrash, FaultKind::kCut, FaultKind::kLongPause};
  const std::uint64_t count = seeds(150, 30);
  int failed = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    FarWorld world(seed, kinds[seed % 3], {.messages = 400, .credits = 2, .seed = seed});
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", world.fault.describe()));
    (void)world.sim.run(1'000'000);
    ASSERT_EQ(world.broken, "");
    ASSERT_EQ(world.board.wrong, 0);
    for (int rank = 0; rank < 2; ++rank) {
      if (world.network->has_crashed(Rank(rank))) continue;
      ASSERT_TRUE(world.left[rank]) << "rank " << rank << " has not ended";
      const Status end = world.systems[rank]->outcome();
      ASSERT_TRUE(absl::IsUnavailable(end)) << end;
      ASSERT_THAT(std::string(end.message()),
                  testing::AllOf(testing::HasSubstr("edge "), testing::HasSubstr(absl::StrCat("rank ", 1 - rank))));
      ASSERT_LE(world.ended_ns[rank], world.fault.heard_by_ns(*world.network) + kTrafficNs);
      ++failed;
    }
  }
  EXPECT_GT(failed, static_cast<int>(count));
}

// A peer with other buffers, or another number of credits, is another config.
TEST_F(FarEdge, RefusesABulkThatDoesNotFitItsBuffer) {
  FarTrafficBoard board;
  actor::SimWorld sim(3, 0);
  comm::SimNetwork network(sim.clock(), {.world = 2, .seed = 3});
  sim.add(network);
  device::SimStream compute("compute", sim.clock()), edges("edges", sim.clock());
  sim.add(compute);
  sim.add(edges);
  std::unique_ptr<comm::Transport> transports[] = {network.transport(Rank(0)), network.transport(Rank(1))};
  std::unique_ptr<FarTrafficProcess> processes[2];
  std::unique_ptr<actor::System> systems[2];
  for (int rank = 0; rank < 2; ++rank) {
    systems[rank] = std::make_unique<actor::System>(sim.options());
    processes[rank] = std::make_unique<FarTrafficProcess>(FarTrafficOptions{.elements = rank ? 99 : 100}, *transports[rank], *systems[rank],
                                                          compute, edges, board);
    sim.drive(*systems[rank]);
    systems[rank]->start();
    ASSERT_TRUE(transports[rank]->start().ok());
  }
  (void)sim.run(100'000, [&] { return actor::SimWorld::has_ended(*systems[0]) && actor::SimWorld::has_ended(*systems[1]); });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(std::string(systems[rank]->outcome().message()),
                testing::AnyOf(testing::HasSubstr("brings"), testing::HasSubstr("did not want the bulk")));
  }
  EXPECT_EQ(board.received, 0);
  for (auto& transport : transports) transport->stop();
  for (auto& system : systems) system.reset();
}

}  // namespace
}  // namespace troupe::test
