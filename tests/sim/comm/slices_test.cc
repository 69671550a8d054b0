// Slices over the simulated network, pulled by node: every fetch ends, with the owner's bytes or with a cause, in whatever order the ranks of a
// machine want them, however few rooms they have, whatever befalls them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "comm/sim/sim_network.h"
#include "comm/slices/slices.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"

namespace troupe::test {
namespace {

using comm::SliceId;

// Ranks that all own slices and walk over everybody's in an order of their own, version by version, with rooms as passes have them: one
// is used again when what lies in it has been read. Nobody writes a version before all ranks have walked over the one before.
class Walkers {
 public:
  Walkers(std::uint64_t seed, FaultKind kind) : draws_(seed, 1) {
    world_ = 2 + static_cast<int>(draws_.below(7));
    const std::int64_t kinds = 1 + draws_.below(3);
    for (int rank = 0; rank < world_; ++rank) node_of_.push_back(static_cast<int>(draws_.below(kinds)));
    slices_of_each_ = 1 + static_cast<int>(draws_.below(4));
    comm::SimNetworkOptions options{.world = world_, .seed = seed};
    options.eager_bytes_most = draws_.one_in(2) ? 0 : 8'192;
    network_ = std::make_unique<comm::SimNetwork>(clock_, options);
    fault = Fault::draw(kind, draws_, world_, kWorkNs, options.heartbeat_timeout_ns);
    fault.schedule(*network_);
    for (int rank = 0; rank < world_; ++rank) add_walker(Rank(rank));
    for (int rank = 0; rank < world_; ++rank) {
      network_->at(draws_.below(kWorkNs / 4), [this, rank] {
        Walker& walker = walkers_[static_cast<std::size_t>(rank)];
        EXPECT_TRUE(walker.transport->start().ok());
        walker.transport->post([this, rank] { next_version(Rank(rank)); });
      });
    }
  }
  Walkers(const Walkers&) = delete;
  Walkers& operator=(const Walkers&) = delete;
  ~Walkers() {
    for (auto& walker : walkers_) walker.transport->stop();
  }

  void run() {
    ASSERT_TRUE(test::run(clock_, *network_)) << "it does not end";
    EXPECT_EQ(broken_, "");
    for (int rank = 0; rank < world_; ++rank) {
      if (network_->has_crashed(Rank(rank))) continue;
      const Walker& walker = walkers_[static_cast<std::size_t>(rank)];
      EXPECT_EQ(walker.open, 0) << "fetches of rank " << rank << " have not ended";
      if (fault.harmless()) {
        EXPECT_EQ(walker.version, kVersions - 1) << "rank " << rank;
        EXPECT_TRUE(walker.cause.ok()) << walker.cause;
      } else if (!walker.cause.ok()) {
        EXPECT_EQ(walker.cause.code(), absl::StatusCode::kUnavailable) << walker.cause;
        EXPECT_THAT(std::string(walker.cause.message()), testing::HasSubstr("is down"));
      }
    }
    EXPECT_EQ(network_->unfinished(), "");
  }
  // Of all bytes that ranks wanted from other machines.
  std::int64_t wanted_bytes = 0;
  std::int64_t between_nodes_bytes() const {
    std::int64_t bytes = 0;
    for (int from = 0; from < world_; ++from) {
      for (int to = 0; to < world_; ++to) {
        if (node_of_[static_cast<std::size_t>(from)] == node_of_[static_cast<std::size_t>(to)]) continue;
        bytes += network_->traffic(Rank(from), Rank(to)).bulk_bytes[static_cast<std::size_t>(comm::Channel::kSlices)];
      }
    }
    return bytes;
  }
  Fault fault;

 private:
  static constexpr std::int64_t kWorkNs = 2'000'000;  // about what it takes without faults
  static constexpr int kVersions = 3;
  struct Room {
    std::vector<std::byte> bytes;
    bool free = true;
  };
  struct Walker {
    std::unique_ptr<comm::Transport> transport;
    std::unique_ptr<comm::Slices> slices;
    std::deque<std::vector<std::byte>> own;
    std::deque<Room> rooms;
    std::vector<std::pair<int, int>> order;  // (owner, slice): what is left of the walk
    std::int64_t version = -1;
    int open = 0;
    Status cause;

    bool has_walked() const {
      return order.empty() && open == 0 && cause.ok() && std::all_of(rooms.begin(), rooms.end(), [](const Room& room) { return room.free; });
    }
  };

  static std::byte value(int owner, int id, std::int64_t version, std::size_t at) {
    return static_cast<std::byte>(static_cast<std::size_t>(owner * 31 + id * 7 + version * 101) + at * 13);
  }
  std::size_t bytes_of(int id) const { return id % 2 == 0 ? 100 : 20'000; }
  Walker& of(Rank rank) { return walkers_[static_cast<std::size_t>(rank.value)]; }

  void add_walker(Rank rank) {
    Walker& walker = walkers_.emplace_back();
    std::vector<Rank> mates;
    for (int other = 0; other < world_; ++other) {
      if (node_of_[static_cast<std::size_t>(other)] == node_of_[static_cast<std::size_t>(rank.value)]) mates.push_back(Rank(other));
    }
    walker.transport = network_->transport(rank);
    walker.slices = std::make_unique<comm::Slices>(*walker.transport, mates);
    walker.transport->on_peer_down([&walker](Rank peer, const Status& cause) { walker.slices->peer_down(peer, cause); });
    for (int id = 0; id < slices_of_each_; ++id) walker.slices->show(SliceId(id), walker.own.emplace_back(bytes_of(id)));
    for (std::int64_t room = 1 + draws_.below(3); room > 0; --room) walker.rooms.push_back({.bytes = std::vector<std::byte>(20'000)});
  }

  // Once all have walked over the last version, the own slices are written; then everybody's are wanted, some of them twice.
  void next_version(Rank rank) {
    Walker& walker = of(rank);
    ++walker.version;
    for (int id = 0; id < slices_of_each_; ++id) {
      auto& own = walker.own[static_cast<std::size_t>(id)];
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = value(rank.value, id, walker.version, i);
      walker.slices->publish(SliceId(id), walker.version);
    }
    for (int owner = 0; owner < world_; ++owner) {
      for (int id = 0; id < slices_of_each_; ++id) {
        for (std::int64_t times = 1 + draws_.below(2); times > 0; --times) walker.order.emplace_back(owner, id);
      }
    }
    for (std::size_t i = 1; i < walker.order.size(); ++i) {
      std::swap(walker.order[i], walker.order[static_cast<std::size_t>(draws_.below(static_cast<std::int64_t>(i + 1)))]);
    }
    walk(rank);
  }

  void walk(Rank rank) {
    Walker& walker = of(rank);
    for (Room& room : walker.rooms) {
      if (!room.free || walker.order.empty() || !walker.cause.ok()) continue;
      const auto [owner, id] = walker.order.back();
      walker.order.pop_back();
      room.free = false;
      ++walker.open;
      const auto into = std::span(room.bytes).first(bytes_of(id));
      const bool elsewhere = node_of_[static_cast<std::size_t>(owner)] != node_of_[static_cast<std::size_t>(rank.value)];
      if (elsewhere) wanted_bytes += static_cast<std::int64_t>(into.size());
      const auto done = [this, rank, &walker, &room, owner = owner, id = id, into](const Status& status) {
        --walker.open;
        if (!status.ok()) {
          if (walker.cause.ok()) walker.cause = status;
          return;
        }
        for (std::size_t i = 0; i < into.size(); ++i) {
          if (into[i] == value(owner, id, walker.version, i)) continue;
          broken_ = absl::StrCat("rank ", rank.value, " has wrong bytes of slice ", id, " of rank ", owner);
        }
        read_later(rank, room);
      };
      walker.slices->fetch(Rank(owner), SliceId(id), walker.version, into, done);
    }
    if (walker.has_walked()) meet();
  }
  // A pass computes with it for a while; a paused rank's goes on when that does.
  void read_later(Rank rank, Room& room) {
    network_->at(clock_.now_ns() + draws_.below(60'000), [this, rank, &room] {
      if (network_->has_crashed(rank)) return;
      if (!network_->runs(rank)) return read_later(rank, room);
      room.free = true;
      of(rank).transport->post([this, rank] { walk(rank); });
    });
  }
  // All have walked: the norms of the step are known.
  void meet() {
    const auto version = walkers_.front().version;
    for (const Walker& walker : walkers_) {
      if (!walker.has_walked() || walker.version != version || version < 0) return;
    }
    if (version + 1 == kVersions || met_ == version) return;
    met_ = version;
    for (int rank = 0; rank < world_; ++rank) of(Rank(rank)).transport->post([this, rank] { next_version(Rank(rank)); });
  }

  VirtualClock clock_;
  Draws draws_;
  int world_ = 0, slices_of_each_ = 0;
  std::vector<int> node_of_;
  std::unique_ptr<comm::SimNetwork> network_;
  std::deque<Walker> walkers_;
  std::int64_t met_ = -1;  // the last version that all have walked over
  std::string broken_;
};

TEST(SimSlices, EveryFetchEndsWithTheOwnersBytesOrWithACause) {
  const std::uint64_t count = seeds(600, 60);
  std::int64_t wanted = 0, between = 0;
  for (std::uint64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    Walkers walkers(seed, static_cast<FaultKind>(seed % kFaultKinds));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", walkers.fault.describe()));
    walkers.run();
    wanted += walkers.wanted_bytes;
    between += walkers.between_nodes_bytes();
  }
  const double share = static_cast<double>(between) / static_cast<double>(wanted);
  printf("%d seeds; of what ranks wanted from other machines %.2f went between them\n", static_cast<int>(count), share);
  EXPECT_LT(share, 0.95);  // in orders of their own they seldom find what another has fetched
}

}  // namespace
}  // namespace troupe::test
