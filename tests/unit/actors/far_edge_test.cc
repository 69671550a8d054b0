// Edges between processes over the real transports: threads and UCX, both ends in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "comm/local/local_transport.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/sanitizer.h"
#include "runtime/device/host_stream.h"
#include "tests/support/far_traffic.h"

namespace troupe::test {
namespace {

using std::chrono::seconds;

template <class Condition>
bool within(std::chrono::nanoseconds limit, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Both ends, each with a System and streams of its own.
class Ends {
 public:
  Ends(const FarTrafficOptions& options, comm::Transport& first, comm::Transport& second) : transports_{&first, &second} {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      processes_[rank] = std::make_unique<FarTrafficProcess>(options, *transports_[rank], systems_[rank], compute_[rank],
                                                             edges_[rank], board);
    }
  }
  void start() {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      systems_[rank].start();
      ASSERT_TRUE(transports_[rank]->start().ok());
    }
  }
  ~Ends() {
    for (auto& system : systems_) EXPECT_TRUE(system.shutdown(seconds(20)).ok());
    for (auto* transport : transports_) transport->stop();
  }
  actor::System& system(std::size_t rank) { return systems_[rank]; }
  FarTrafficBoard board;

 private:
  comm::Transport* transports_[2];
  std::unique_ptr<FarTrafficProcess> processes_[2];  // their buffers outlive the actors
  actor::System systems_[2];
  device::HostStream compute_[2]{device::HostStream("compute", 1, {}), device::HostStream("compute", 1, {})};
  device::HostStream edges_[2]{device::HostStream("edges", 1, {}), device::HostStream("edges", 1, {})};
};

void expect_all_arrives(const FarTrafficOptions& options, comm::Transport& first, comm::Transport& second) {
  Ends ends(options, first, second);
  ends.start();
  EXPECT_TRUE(within(seconds(60), [&] { return ends.board.done == 4; })) << ends.board.received << " of " << 2 * options.messages;
  EXPECT_EQ(ends.board.received, 2 * options.messages);
  EXPECT_EQ(ends.board.wrong, 0);
}

TEST(FarEdgeOnThreads, BringsEverythingInOrder) {
  for (const int credits : {1, 2, 5}) {
    comm::LocalHub hub(2);
    const auto first = hub.transport(Rank(0)), second = hub.transport(Rank(1));
    expect_all_arrives({.messages = 500, .credits = credits, .elements = 3'000}, *first, *second);
  }
}

TEST(FarEdgeOnThreads, FailsWhenItsPeerIsGone) {
  comm::LocalHub hub(2);
  const auto first = hub.transport(Rank(0)), second = hub.transport(Rank(1));
  Ends ends({.messages = 1'000'000}, *first, *second);
  ends.start();
  EXPECT_TRUE(within(seconds(20), [&] { return ends.board.received > 100; }));
  second->stop();
  const Status end = ends.system(0).wait();
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_THAT(std::string(end.message()), testing::AllOf(testing::HasSubstr("edge "), testing::HasSubstr("rank 1")));
}

// FNV-1a, as WIRE.md says.
std::uint64_t number_of_edge(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// A process that sends anything on the channel of edges: what names no edge is counted and changes nothing, what names one and breaks its
// protocol fails that end and says so.
TEST(FarEdgeOnThreads, RefusesWhatIsNoFrameOfAnEdge) {
  std::mt19937_64 random(14);
  for (int trial = 0; trial < 60; ++trial) {
    comm::LocalHub hub(2);
    std::vector<comm::Arrival> kept;  // what comes is neither fetched nor refused
    const auto first = hub.transport(Rank(0)), second = hub.transport(Rank(1));
    second->handle(comm::Channel::kEdges, [&](comm::Arrival arrival) { kept.push_back(std::move(arrival)); });
    const FarTrafficOptions options{.messages = 5};
    FarTrafficBoard board;
    device::HostStream compute("compute", 1, {}), leaving("edges", 1, {});
    std::unique_ptr<FarTrafficProcess> process;
    actor::System system;
    process = std::make_unique<FarTrafficProcess>(options, *first, system, compute, leaving, board);
    system.start();
    ASSERT_TRUE(first->start().ok() && second->start().ok());
    const auto send = [&](std::span<const std::byte> header) { second->send({.to = Rank(0), .channel = comm::Channel::kEdges, .header = header}); };
    for (int i = 0; i < 20; ++i) {
      std::vector<std::byte> garbage(random() % 60);
      for (auto& byte : garbage) byte = static_cast<std::byte>(random());
      send(garbage);
    }
    EXPECT_TRUE(within(seconds(20), [&] { return process->far().refused() == 20; }));
    EXPECT_TRUE(system.outcome().ok()) << system.outcome();
    std::vector<std::byte> frame(8 + random() % 30, std::byte{0xff});  // slots and sequences that are none, or too few bytes
    const std::uint64_t number = number_of_edge(trial % 2 ? "there" : "back");
    std::memcpy(frame.data(), &number, sizeof number);
    send(frame);
    const Status end = system.wait();
    EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
    EXPECT_THAT(std::string(end.message()), testing::HasSubstr(trial % 2 ? "edge there with rank 1" : "edge back with rank 1"));
    compute.synchronize();  // they still read and write what the actors and the process own
    leaving.synchronize();
    second->stop();
    first->stop();
    kept.clear();
  }
}

// Below and above what UCX copies on its way.
TEST(FarEdgeOverUcx, BringsEverythingInOrder) {
  for (const std::int64_t elements : {20, 3'000, 300'000}) {
    std::vector<std::unique_ptr<comm::UcxTransport>> transports;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      auto opened = comm::UcxTransport::open({.rank = Rank(rank), .world = 2, .job = 7});
      ASSERT_TRUE(opened.ok()) << opened.status();
      transports.push_back(*std::move(opened));
      addresses.push_back(transports.back()->address());
    }
    for (auto& transport : transports) transport->set_peers(addresses);
    expect_all_arrives({.messages = elements < 10'000 ? 300 : kSanitized ? 12 : 60, .elements = elements}, *transports[0], *transports[1]);
  }
}

}  // namespace
}  // namespace troupe::test
