// A job of four hosts with sixteen ranks each, all of which join at once, each through its host's relay; threads play the processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/join/join.h"
#include "tests/unit/comm/join/stranger.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kHosts = 4, kRanksOfAHost = 16, kRanks = kHosts * kRanksOfAHost;
// In bytes about what a rank's address has over UCX.
std::string address_of(int rank) { return absl::StrCat(rank, std::string(1'000, 'a')); }
std::string said_by(const Status& status) { return std::string(status.message()); }

class JoinCrowd : public testing::Test {
 protected:
  void TearDown() override { end(); }
  // The launcher has the store, and its agents the relays.
  void launch() {
    end();
    auto server = StoreServer::start({.secret = "secret", .world = kRanks}, [this](const StoreCause& cause) {
      const std::lock_guard lock(mutex_);
      causes_.push_back(cause);
    });
    ASSERT_TRUE(server.ok()) << said_by(server.status());
    server_ = *std::move(server);
    port_ = server_->port();
    for (int host = 0; host < kHosts; ++host) {
      auto relay = StoreRelay::start({.name = name(host),
                                      .host = absl::StrCat("host-", host),
                                      .store_hosts = "127.0.0.1",
                                      .store_port = port_,
                                      .secret = "secret",
                                      .world = kRanks},
                                     after(kPatience));
      ASSERT_TRUE(relay.ok()) << said_by(relay.status());
      relays_.push_back(*std::move(relay));
    }
  }
  void end() {
    relays_.clear();
    server_.reset();
    causes_.clear();
  }
  static std::string name(int host) { return absl::StrCat("troupe-test-", getpid(), "-crowd-", host); }
  Place place(int rank) const {
    return {.rank = Rank{rank},
            .world = kRanks,
            .local_rank = rank % kRanksOfAHost,
            .local_world = kRanksOfAHost,
            .store_host = "127.0.0.1",
            .store_port = port_,
            .secret = "secret",
            .relay = name(rank / kRanksOfAHost)};
  }
  // All ranks but these, at once.
  static void each_but(const std::vector<int>& missing, const std::function<void(int rank)>& run) {
    std::latch ready(kRanks - static_cast<std::ptrdiff_t>(missing.size()));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
      threads.emplace_back([&, rank] {
        ready.arrive_and_wait();
        run(rank);
      });
    }
    for (auto& thread : threads) thread.join();
  }
  static void expect_to_join(const Place& at, const std::function<void()>& joined_all = [] {}) {
    auto joined = join(at, address_of(at.rank.value), after(kPatience));
    ASSERT_TRUE(joined.ok()) << at.rank.value << ": " << said_by(joined.status());
    ASSERT_EQ(joined->addresses().size(), static_cast<std::size_t>(kRanks));
    for (int other = 0; other < kRanks; ++other) EXPECT_EQ(joined->addresses()[static_cast<std::size_t>(other)], address_of(other));
    joined_all();
    EXPECT_EQ(joined->store()->barrier("seen", kRanks, after(kPatience)), ok());
    EXPECT_EQ(joined->leave(after(kPatience)), ok());
  }
  bool wait_until_waiting(std::size_t ranks) const {
    return wait_until([&] { return server_->meeting().waiting.size() == ranks; });
  }
  std::vector<StoreCause> causes() const {
    const std::lock_guard lock(mutex_);
    return causes_;
  }

  mutable std::mutex mutex_;
  std::vector<StoreCause> causes_;
  std::unique_ptr<StoreServer> server_;
  std::vector<std::unique_ptr<StoreRelay>> relays_;
  int port_ = 0;
};

TEST_F(JoinCrowd, AllHaveAllAddressesOverOneConnectionAHost) {
  for (int round = 0; round < 3; ++round) {
    launch();
    each_but({}, [&](int rank) {
      expect_to_join(place(rank), [&] { EXPECT_EQ(server_->connections(), kHosts); });
    });
    EXPECT_TRUE(server_->wait_until_left(after(kPatience)));
    for (const auto& relay : relays_) EXPECT_EQ(relay->refused(), 0);
    EXPECT_EQ(server_->refused(), 0);
    EXPECT_TRUE(causes().empty()) << causes()[0].reason;
  }
}

// Without our launcher: rank 0 has the store, the first rank of each other host its relay.
TEST_F(JoinCrowd, TheFirstRanksOfTheHostsMayRunTheRelays) {
  {
    const auto free = StoreServer::start({.secret = "secret"});
    ASSERT_TRUE(free.ok());
    port_ = (*free)->port();
  }
  each_but({}, [&](int rank) {
    Place at = place(rank);
    at.hosts_store = rank == 0;
    at.hosts_relay = rank > 0 && at.local_rank == 0;
    expect_to_join(at);
  });
}

TEST_F(JoinCrowd, OneThatIsMissingIsNamedToAll) {
  constexpr int kMissing = 37, kHasty = 5;
  launch();
  each_but({kMissing}, [&](int rank) {
    if (rank == kHasty) {  // its time is over when all others wait
      EXPECT_TRUE(wait_until_waiting(kRanks - 2));
    }
    const Status status = join(place(rank), address_of(rank), after(rank == kHasty ? 2s : kPatience)).status();
    const std::string missing = "waited for the address of rank 37 of 64";
    EXPECT_EQ(status.code(), rank == kHasty ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kAborted) << rank;
    EXPECT_EQ(said_by(status), rank == kHasty ? missing : "rank 5 ended the job: " + missing) << rank;
  });
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_FALSE(causes()[0].lost);
  EXPECT_EQ(said_by(join(place(kMissing), address_of(kMissing), after(kPatience)).status()),
            "rank 5 ended the job: waited for the address of rank 37 of 64")
      << "and to the one that comes too late";
}

TEST_F(JoinCrowd, ARelayThatDiesMeanwhileIsNamedToAll) {
  constexpr int kDies = 2;
  const std::vector<int> late{15, 31, 47, 63};  // the last of each host: so nobody is through
  launch();
  std::thread killer([&] {
    EXPECT_TRUE(wait_until_waiting(kRanks - late.size()));
    relays_[kDies].reset();
  });
  each_but(late, [&](int rank) {
    const Status status = join(place(rank), address_of(rank), after(kPatience)).status();
    if (rank / kRanksOfAHost == kDies) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << rank;
      EXPECT_EQ(said_by(status), "the relay of host host-2 closed the connection") << rank;
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << rank;
    EXPECT_NE(said_by(status).find("rank 32 is gone: the relay of host host-2"), std::string::npos) << rank << ": " << said_by(status);
    EXPECT_NE(said_by(status).find("with ranks 32, 33, 34,"), std::string::npos) << rank << ": " << said_by(status);
  });
  killer.join();
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_EQ(causes()[0].rank, Rank{32});
  EXPECT_TRUE(causes()[0].lost);
  EXPECT_NE(said_by(join(place(15), address_of(15), after(kPatience)).status()).find("the relay of host host-2"), std::string::npos);
}

}  // namespace
}  // namespace troupe::comm
