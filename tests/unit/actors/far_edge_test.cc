// Edges between processes over the real transports: threads and UCX, both ends in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
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
