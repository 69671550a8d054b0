// Collectives over the simulated network: every one ends, everywhere, with the right bits or with a cause, whatever befalls the ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "comm/collective/engine.h"
#include "comm/sim/sim_network.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"

namespace troupe::test {
namespace {

using comm::Collective, comm::CollectiveKind, comm::GroupId, comm::OperationId, comm::Parts;
using device::bfloat16, device::DType;

constexpr GroupId kAll{1};
constexpr std::int64_t kWorkNs = 5'000'000;   // in which operations are started
constexpr std::int64_t kEndNs = 5'000'000'000;  // by then all has ended, also with a slow peer
constexpr std::int64_t kBoundNs = 10'000'000;  // from what a rank hears to the end of its operations

// One operation: what it is and what it must give at each member.
struct Case {
  Collective what;                           // without memory
  std::vector<std::vector<std::byte>> data;  // by member: before, then after
  std::vector<std::vector<std::byte>> from, expected;
  std::vector<Parts> parts, from_parts;      // of an all-to-all, by member
  std::vector<std::optional<Status>> ends;
  std::int64_t sparse_bytes = 0;             // of a sparse sum: that go between nodes
};

std::vector<std::byte> random_bytes(Draws& draws, DType type, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * device::size_bytes(type)));
  const auto first = static_cast<std::uint32_t>(draws.below(1 << 30));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>((static_cast<std::uint32_t>(i) * 2654435761u + first) % 20011u) * 1e-3f - 10;
    if (type == DType::kF32) {
      reinterpret_cast<float*>(bytes.data())[i] = value;
    } else {
      reinterpret_cast<bfloat16*>(bytes.data())[i] = bfloat16(value);
    }
  }
  return bytes;
}

// By the definition: the addends in their order, in fp32, rounded to the type.
template <class T>
std::vector<std::byte> added(const std::vector<std::vector<std::byte>>& addends) {
  std::vector<std::byte> sums = addends.front();
  const auto at = [](const std::vector<std::byte>& bytes, std::size_t i) { return static_cast<float>(reinterpret_cast<const T*>(bytes.data())[i]); };
  for (std::size_t i = 0; i < sums.size() / sizeof(T); ++i) {
    float sum = at(addends.front(), i);
    for (std::size_t member = 1; member < addends.size(); ++member) sum += at(addends[member], i);
    reinterpret_cast<T*>(sums.data())[i] = T(sum);
  }
  return sums;
}
std::vector<std::byte> added(DType type, const std::vector<std::vector<std::byte>>& addends) {
  return type == DType::kF32 ? added<float>(addends) : added<bfloat16>(addends);
}

// Nodes in the order of their first members.
std::vector<int> ordered(const std::vector<int>& nodes) {
  std::vector<int> order;
  for (const int node : nodes) {
    if (std::find(order.begin(), order.end(), node) == order.end()) order.push_back(node);
  }
  return order;
}
// Each node's sum: that of its members.
std::vector<std::vector<std::byte>> node_sums(DType type, const std::vector<std::vector<std::byte>>& addends, const std::vector<int>& nodes) {
  std::vector<std::vector<std::byte>> sums;
  for (const int node : ordered(nodes)) {
    std::vector<std::vector<std::byte>> its;
    for (std::size_t member = 0; member < addends.size(); ++member) {
      if (nodes[member] == node) its.push_back(addends[member]);
    }
    sums.push_back(added(type, its));
  }
  return sums;
}

// Of sparse sums blocks of 1 KiB travel, counted from their part's begin, where any bit is set.
std::int64_t bytes_with_something(std::span<const std::byte> part) {
  std::int64_t all = 0;
  for (std::size_t at = 0; at < part.size(); at += 1'024) {
    const auto block = part.subspan(at, std::min<std::size_t>(1'024, part.size() - at));
    if (std::any_of(block.begin(), block.end(), [](std::byte byte) { return byte != std::byte{0}; })) all += static_cast<std::int64_t>(block.size());
  }
  return all;
}

Case draw_case(Draws& draws, int members, const std::vector<int>& nodes) {
  Case drawn;
  const auto ranks = static_cast<std::size_t>(members);
  drawn.what.kind = static_cast<CollectiveKind>(draws.below(6));
  drawn.what.type = draws.one_in(2) ? DType::kF32 : DType::kBF16;
  drawn.ends.resize(ranks);
  const std::int64_t size = device::size_bytes(drawn.what.type);
  const std::int64_t sizes[] = {0, 1, 100, 4'096, 4'097, 9'000};
  const std::int64_t elements = draws.one_in(40) ? 300'001 : sizes[draws.below(6)];
  const auto of = [&](const std::vector<std::byte>& bytes, const Parts& parts, int member) {
    return std::span(bytes).subspan(static_cast<std::size_t>(parts.begin(member) * size), static_cast<std::size_t>(parts.size(member) * size));
  };
  const auto put = [&](std::vector<std::byte>& bytes, const Parts& parts, int member, std::span<const std::byte> part) {
    std::copy(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(parts.begin(member) * size));
  };
  Parts& parts = drawn.what.parts;
  if (drawn.what.kind == CollectiveKind::kBarrier) {
    drawn.data.resize(ranks);
    drawn.expected.resize(ranks);
    return drawn;
  }
  if (drawn.what.kind == CollectiveKind::kAllToAll) {
    std::vector<std::vector<std::int64_t>> counts(ranks, std::vector<std::int64_t>(ranks));
    for (auto& row : counts) {
      for (auto& count : row) count = draws.one_in(3) ? 0 : draws.below(elements / members + 1);
    }
    drawn.parts.resize(ranks);
    drawn.from_parts.resize(ranks);
    for (std::size_t member = 0; member < ranks; ++member) {
      for (std::size_t other = 0; other < ranks; ++other) {
        drawn.from_parts[member].boundaries.push_back(drawn.from_parts[member].boundaries.back() + counts[member][other]);
        drawn.parts[member].boundaries.push_back(drawn.parts[member].boundaries.back() + counts[other][member]);
      }
      drawn.from.push_back(random_bytes(draws, drawn.what.type, drawn.from_parts[member].elements()));
      drawn.data.emplace_back(static_cast<std::size_t>(drawn.parts[member].elements() * size));
    }
    drawn.expected = drawn.data;
    for (int member = 0; member < members; ++member) {
      for (int other = 0; other < members; ++other) {
        const auto from = static_cast<std::size_t>(other), to = static_cast<std::size_t>(member);
        put(drawn.expected[to], drawn.parts[to], other, of(drawn.from[from], drawn.from_parts[from], member));
      }
    }
    return drawn;
  }
  if (drawn.what.kind == CollectiveKind::kBroadcast) {
    const auto root = draws.below(members);
    for (int member = 0; member < members; ++member) parts.boundaries.push_back(member < root ? 0 : elements);
  } else {
    parts = Parts::equal(elements, members, draws.one_in(2) ? 1 : 2'048);  // with the second, some are empty
  }
  for (std::size_t member = 0; member < ranks; ++member) drawn.data.push_back(random_bytes(draws, drawn.what.type, elements));
  drawn.expected = drawn.data;
  const bool sums = drawn.what.kind == CollectiveKind::kAllReduce || drawn.what.kind == CollectiveKind::kReduceScatter;
  drawn.what.sparse = sums && draws.one_in(2);
  if (drawn.what.sparse) {  // no member has the same zeros, and some are zero everywhere
    const std::int64_t keeps = 1 + draws.below(6);
    for (auto& bytes : drawn.data) {
      for (std::size_t at = 0; at < bytes.size(); at += 1'024) {
        if (draws.below(6) < keeps) std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(1'024, bytes.size() - at), std::byte{0});
      }
    }
    drawn.expected = drawn.data;
  }
  const auto by_node = sums ? node_sums(drawn.what.type, drawn.data, nodes) : std::vector<std::vector<std::byte>>();
  const auto sum = sums ? added(drawn.what.type, by_node) : std::vector<std::byte>();
  for (int part = 0; part < members && drawn.what.sparse; ++part) {  // each other node's sum comes, and in an all-reduce the whole one goes back
    for (std::size_t node = 0; node < by_node.size(); ++node) {
      if (ordered(nodes)[node] != nodes[static_cast<std::size_t>(part)]) drawn.sparse_bytes += bytes_with_something(of(by_node[node], parts, part));
    }
    if (drawn.what.kind == CollectiveKind::kAllReduce) drawn.sparse_bytes += (static_cast<std::int64_t>(by_node.size()) - 1) * bytes_with_something(of(sum, parts, part));
  }
  for (int member = 0; member < members; ++member) {
    auto& mine = drawn.expected[static_cast<std::size_t>(member)];
    for (int part = 0; part < members; ++part) {
      switch (drawn.what.kind) {
        case CollectiveKind::kAllReduce: put(mine, parts, part, of(sum, parts, part)); break;
        case CollectiveKind::kReduceScatter:
          if (part == member) put(mine, parts, part, of(sum, parts, part));
          break;
        default: put(mine, parts, part, of(drawn.data[static_cast<std::size_t>(part)], parts, part));
      }
    }
  }
  return drawn;
}

// Ranks with an engine each, and operations that each starts in an order and at times of its own.
class Crew {
 public:
  Crew(std::uint64_t seed, FaultKind kind, bool disagree = false) : draws_(seed, 1) {
    world_ = 2 + static_cast<int>(draws_.below(6));
    // Uneven, and not neighbours; half of the worlds have one node.
    const std::int64_t kinds = draws_.one_in(2) ? 1 : 2 + draws_.below(3);
    for (int rank = 0; rank < world_; ++rank) nodes_.push_back(static_cast<int>(draws_.below(kinds)) * 3);
    comm::SimNetworkOptions options{.world = world_, .seed = seed};
    options.eager_bytes_most = draws_.one_in(2) ? 0 : 8'192;
    options.told_of_a_crash = draws_.one_in(2) ? 0 : 0.5;
    network = std::make_unique<comm::SimNetwork>(clock, options);
    fault = Fault::draw(kind, draws_, world_, kWorkNs, options.heartbeat_timeout_ns);
    fault.schedule(*network);
    network->at(kEndNs, [this] {
      EXPECT_LT(ended_ns_, by_ns()) << "the last end";
      EXPECT_EQ(network->unfinished(), "");
    });
    std::vector<Rank> members;
    for (int rank = 0; rank < world_; ++rank) members.push_back(Rank(rank));
    const auto count = 1 + draws_.below(8);
    for (std::int64_t i = 0; i < count; ++i) cases_.push_back(draw_case(draws_, world_, nodes_));
    if (disagree) {  // the last member's last operation is of another size than the others'
      Case& odd = cases_.back() = Case{.data = {}, .ends = std::vector<std::optional<Status>>(members.size())};
      odd.what.kind = CollectiveKind::kAllReduce;
      odd.data.assign(members.size(), std::vector<std::byte>(4 * 3'000));
      odd.data.back().resize(4 * 2'000);
      odd.expected = odd.data;
    }
    for (const Rank rank : members) {
      transports_.push_back(network->transport(rank));
      auto& transport = *transports_.back();
      engines_.push_back(std::make_unique<comm::CollectiveEngine>(transport));
      auto& engine = *engines_.back();
      engine.add_group(kAll, members, kinds == 1 && draws_.one_in(2) ? std::vector<int>() : nodes_);
      transport.on_peer_down([&engine](Rank peer, const Status& cause) { engine.peer_down(peer, cause); });
      network->at(draws_.below(kWorkNs / 4), [&transport] { EXPECT_TRUE(transport.start().ok()); });
      std::vector<std::size_t> order(cases_.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
        std::swap(order[i], order[static_cast<std::size_t>(draws_.below(static_cast<std::int64_t>(i + 1)))]);
      }
      std::int64_t when = 0;
      for (const std::size_t which : order) {
        when += draws_.below(kWorkNs / static_cast<std::int64_t>(order.size()));
        network->at(when, [this, rank, which] { start(rank, which); });
      }
      // Whether the group has failed, when all is over.
      late_.resize(members.size());
      network->at(kEndNs, [this, rank, &engine] {
        engine.start(kAll, OperationId(1'000), {.what = "late"}, [this, rank](Status status) { late_[static_cast<std::size_t>(rank.value)] = status; });
      });
    }
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    for (auto& transport : transports_) transport->stop();
  }

  void run(bool fails) {
    ASSERT_TRUE(test::run(clock, *network)) << "it does not end";
    for (int rank = 0; rank < world_; ++rank) {
      if (network->has_crashed(Rank(rank))) continue;
      SCOPED_TRACE(absl::StrCat("rank ", rank));
      const auto at = static_cast<std::size_t>(rank);
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        const auto& end = cases_[i].ends[at];
        ASSERT_TRUE(end) << "operation " << i << " has not ended";
        if (!end->ok()) {
          EXPECT_TRUE(fails) << *end;
          explained(*end);
        } else {
          EXPECT_EQ(cases_[i].data[at], cases_[i].expected[at]) << comm::name(cases_[i].what.kind) << ", operation " << i;
        }
      }
      ASSERT_TRUE(late_[at]);
      EXPECT_EQ(late_[at]->ok(), !fails) << *late_[at];  // failed everywhere or nowhere
      if (!late_[at]->ok()) explained(*late_[at]);
    }
    if (!fails) check_bytes_between_nodes();
    for (int from = 0; from < world_; ++from) {
      for (int to = 0; to < world_; ++to) {
        const auto& traffic = network->traffic(Rank(from), Rank(to));
        if (!fault.divides(Rank(from), Rank(to))) {
          EXPECT_EQ(traffic.sent, traffic.arrived);
        }
      }
    }
  }

  VirtualClock clock;
  std::unique_ptr<comm::SimNetwork> network;
  Fault fault;
  std::size_t operations() const { return cases_.size(); }

 private:
  void start(Rank rank, std::size_t which) {
    if (!network->runs(rank)) {  // paused: it goes on where it was, or never
      if (!network->has_crashed(rank)) network->at(clock.now_ns() + 100'000, [this, rank, which] { start(rank, which); });
      return;
    }
    Case& its = cases_[which];
    const auto at = static_cast<std::size_t>(rank.value);
    Collective mine = its.what;
    mine.data = its.data[at].data();
    mine.what = absl::StrCat("operation ", which);
    if (!its.parts.empty()) {
      mine.parts = its.parts[at];
      mine.from_parts = its.from_parts[at];
      mine.from = its.from[at].data();
    } else if (mine.parts.members() == 0 && mine.kind != CollectiveKind::kBarrier) {
      mine.parts = Parts::equal(static_cast<std::int64_t>(its.data[at].size() / 4), world_);
    }
    engines_[at]->start(kAll, OperationId(static_cast<std::int64_t>(which)), std::move(mine), [this, &its, at](const Status& status) {
      EXPECT_TRUE(transports_[at]->on_progress_thread());
      EXPECT_FALSE(its.ends[at]) << "ended twice";
      its.ends[at] = status;
      ended_ns_ = clock.now_ns();
      if (!status.ok()) std::fill(its.data[at].begin(), its.data[at].end(), std::byte{0xee});  // ours again: nobody may read or write it
    });
  }

  void explained(const Status& status) const {
    const std::string text(status.message());
    EXPECT_EQ(status.code(), fault.kind == FaultKind::kNone ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable);
    if (fault.kind == FaultKind::kNone) {
      EXPECT_THAT(text, testing::HasSubstr("all members must call the same"));
      EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("3000"), testing::HasSubstr("2000")));
      return;
    }
    EXPECT_THAT(text, testing::HasSubstr("is down"));
    if (fault.kind == FaultKind::kCrash) {
      EXPECT_THAT(text, testing::HasSubstr(absl::StrCat("rank ", fault.victim.value, " is down")));
    }
  }

  // Sums and what is gathered go to each node and come from it once; without nodes they would go to each member.
  void check_bytes_between_nodes() const {
    std::map<int, std::int64_t> sizes;
    for (const int node : nodes_) ++sizes[node];
    std::int64_t smallest = world_, counted = 0, right = 0, flat = 0;
    for (const auto& [node, size] : sizes) smallest = std::min(smallest, size);
    for (const auto& engine : engines_) counted += engine->between_nodes_bytes();
    for (const Case& its : cases_) {
      const auto bytes_of = [&](std::int64_t elements) { return elements * device::size_bytes(its.what.type); };
      for (int member = 0; member < world_; ++member) {
        const auto elsewhere = static_cast<std::int64_t>(world_) - sizes.at(nodes_[static_cast<std::size_t>(member)]);
        const auto others = static_cast<std::int64_t>(sizes.size()) - 1;
        if (its.what.kind == CollectiveKind::kAllToAll) {
          for (int to = 0; to < world_; ++to) {
            if (nodes_[static_cast<std::size_t>(to)] == nodes_[static_cast<std::size_t>(member)]) continue;
            const auto bytes = bytes_of(its.from_parts[static_cast<std::size_t>(member)].size(to));
            right += bytes;
            flat += bytes * smallest;  // it is no smaller by nodes
          }
        } else if (its.what.sparse) {
          right += member == 0 ? its.sparse_bytes : 0;
          flat += bytes_of(its.what.parts.size(member)) * (its.what.kind == CollectiveKind::kAllReduce ? 2 : 1) * elsewhere;
        } else if (its.what.kind != CollectiveKind::kBarrier) {
          const auto bytes = bytes_of(its.what.parts.size(member)) * (its.what.kind == CollectiveKind::kAllReduce ? 2 : 1);
          right += bytes * others;
          flat += bytes * elsewhere;
        }
      }
    }
    EXPECT_EQ(counted, right);
    EXPECT_LE(counted * smallest, flat);
  }

  std::int64_t by_ns() const { return fault.harmless() ? kEndNs - 1 : fault.heard_by_ns(*network) + kWorkNs + kBoundNs; }

  Draws draws_;
  int world_ = 0;
  std::vector<int> nodes_;  // by rank
  std::vector<std::unique_ptr<comm::Transport>> transports_;
  std::vector<std::unique_ptr<comm::CollectiveEngine>> engines_;
  std::vector<Case> cases_;
  std::vector<std::optional<Status>> late_;
  std::int64_t ended_ns_ = 0;
};

TEST(SimCollectives, EndEverywhereWithTheRightBitsOrWithACause) {
  const std::uint64_t count = seeds(1'000, 60);
  std::size_t operations = 0;
  std::int64_t events = 0;
  for (std::uint64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    Crew crew(seed, static_cast<FaultKind>(seed % kFaultKinds));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", crew.fault.describe()));
    crew.run(!crew.fault.harmless());
    operations += crew.operations();
    events += crew.network->events();
  }
  EXPECT_GT(operations, count);  // nothing ran for nothing
  printf("%d seeds, %d operations, %d events\n", static_cast<int>(count), static_cast<int>(operations), static_cast<int>(events));
}

TEST(SimCollectives, ADisagreementEndsAllWithBothSidesNamed) {
  const std::uint64_t count = seeds(100, 20);
  std::uint64_t operations = 0;
  for (std::uint64_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Crew crew(seed, FaultKind::kNone, true);
    crew.run(true);
    operations += crew.operations();
  }
  EXPECT_GE(operations, count);  // run() looked at one at least
}

}  // namespace
}  // namespace troupe::test
