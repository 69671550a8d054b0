// Collectives on the transport between threads: values against a fold in member order, and what happens when members disagree or go.
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "comm/collective/engine.h"
#include "comm/collective/wire.h"
#include "tests/unit/comm/collective_world.h"

namespace troupe::comm {
namespace {

using namespace std::chrono_literals;
using device::bfloat16, device::DType;

template <class T>
std::vector<T> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(T(normal(random)));
  return values;
}
template <class T>
bool same_bits(const T* a, const T* b, std::int64_t count) {
  return count == 0 || std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

// Nothing, one element, small ones, around the limits of small and of a chunk, several chunks with a rest.
const std::int64_t kSizes[] = {0, 1, 3, 4096, 4097, 131072, 131073, 700001};

template <class T>
void check_sums(CollectiveKind kind) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    World world(ranks);
    std::int64_t id = 0;
    for (const std::int64_t size : kSizes) {
      std::vector<std::vector<T>> values;
      for (int rank = 0; rank < ranks; ++rank) values.push_back(random_values<T>(size, static_cast<unsigned>(7 * size + rank)));
      const auto expected = folded(values);
      const auto before = values;
      ++id;
      const Parts parts = Parts::equal(size, ranks, 64);
      std::vector<std::future<Status>> ends;
      for (int i = 0; i < ranks; ++i) {
        const int rank = (i + static_cast<int>(id)) % ranks;  // who comes first changes
        ends.push_back(world.start(rank, id, {.kind = kind, .type = device::dtype_of<T>(), .data = bytes(values[static_cast<std::size_t>(rank)]), .parts = parts, .what = "test"}));
      }
      for (auto& end : ends) ASSERT_TRUE(result(end).ok()) << ranks << " ranks, " << size;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& got = values[static_cast<std::size_t>(rank)];
        if (kind == CollectiveKind::kAllReduce) {
          EXPECT_TRUE(same_bits(got.data(), expected.data(), size)) << ranks << " ranks, " << size << " at rank " << rank;
          continue;
        }
        for (int part = 0; part < ranks; ++part) {
          const auto& right = part == rank ? expected : before[static_cast<std::size_t>(rank)];
          EXPECT_TRUE(same_bits(got.data() + parts.begin(part), right.data() + parts.begin(part), parts.size(part)))
              << ranks << " ranks, " << size << " at rank " << rank << " part " << part;
        }
      }
    }
  }
}

TEST(Collective, AllReduceFoldsInMemberOrder) {
  check_sums<float>(CollectiveKind::kAllReduce);
  check_sums<bfloat16>(CollectiveKind::kAllReduce);
}

TEST(Collective, ReduceScatterGivesTheBitsOfAllReduceAndLeavesTheRest) {
  check_sums<float>(CollectiveKind::kReduceScatter);
  check_sums<bfloat16>(CollectiveKind::kReduceScatter);
}

// CASES T25, T28: who waits can say for what and for whom.
TEST(Collective, SaysWhoHasNotEnteredIt) {
  const std::vector<Collective> kinds{{.kind = CollectiveKind::kBarrier, .what = "end"},
                                      {.kind = CollectiveKind::kAllReduce, .parts = Parts::equal(10, 3), .what = "small"},
                                      {.kind = CollectiveKind::kAllReduce, .parts = Parts::equal(100'000, 3), .what = "large"},
                                      {.kind = CollectiveKind::kAllGather, .parts = Parts::equal(1000, 3), .what = "gathered"}};
  for (const auto& kind : kinds) {
    World world(3);
    std::vector<std::vector<float>> values(3, std::vector<float>(static_cast<std::size_t>(kind.parts.elements())));
    std::vector<std::future<Status>> ends;
    const auto enter = [&](int rank) {
      Collective mine = kind;
      mine.data = bytes(values[static_cast<std::size_t>(rank)]);
      ends.push_back(world.start(rank, 7, std::move(mine)));
    };
    const auto missing = [&](int rank) {
      std::promise<std::vector<CollectiveEngine::OpenOperation>> promise;
      world.engine(rank).report([&](auto open) { promise.set_value(std::move(open)); });
      return promise.get_future().get();
    };
    enter(0);
    enter(1);
    const auto until = std::chrono::steady_clock::now() + 20s;
    auto seen = missing(0);
    while ((seen.size() != 1 || seen[0].missing != std::vector{Rank(2)}) && std::chrono::steady_clock::now() < until) seen = missing(0);
    ASSERT_EQ(seen.size(), 1u) << kind.what;
    EXPECT_EQ(seen[0].missing, std::vector{Rank(2)}) << kind.what;
    EXPECT_NE(seen[0].what.find(kind.what), std::string::npos) << seen[0].what;
    enter(2);
    for (auto& end : ends) EXPECT_TRUE(result(end).ok());
    EXPECT_TRUE(missing(0).empty());
  }
}

// Case A19's kind: the last member comes first, and the other way round.
TEST(Collective, FoldsInMemberOrderWhateverComesFirst) {
  const int ranks = 4;
  const std::int64_t size = 300'000;
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < ranks; ++rank) values.push_back(random_values<float>(size, static_cast<unsigned>(rank)));
  const auto expected = folded(values);
  for (const bool backwards : {false, true}) {
    World world(ranks);
    auto mine = values;
    std::vector<std::future<Status>> ends;
    for (int i = 0; i < ranks; ++i) {
      const int rank = backwards ? ranks - 1 - i : i;
      ends.push_back(world.start(rank, 1, {.kind = CollectiveKind::kAllReduce, .data = bytes(mine[static_cast<std::size_t>(rank)]), .parts = Parts::equal(size, ranks)}));
      if (i + 1 < ranks) {
        EXPECT_EQ(ends.front().wait_for(1ms), std::future_status::timeout);  // nobody ends before all have come
      }
    }
    for (auto& end : ends) ASSERT_TRUE(result(end).ok());
    for (const auto& got : mine) EXPECT_TRUE(same_bits(got.data(), expected.data(), size));
  }
}

// Many chunks: more sums of nodes are on their way than may be kept, and nobody waits in a circle. All-reduce and reduce-scatter agree.
TEST(Collective, NodesAreSummedFirstThenTheirSums) {
  const std::vector<int> node_of{4, 1, 4, 1, 1, 4, 0};
  const std::int64_t size = 2'500'000;
  World world(7, node_of);
  std::vector<std::vector<float>> values, of_nodes;
  for (int rank = 0; rank < 7; ++rank) values.push_back(random_values<float>(size, static_cast<unsigned>(rank)));
  for (const auto& node : {std::vector<std::size_t>{0, 2, 5}, {1, 3, 4}, {6}}) {
    std::vector<std::vector<float>> addends;
    for (const std::size_t member : node) addends.push_back(values[member]);
    of_nodes.push_back(folded(addends));
  }
  const auto expected = folded(of_nodes);
  EXPECT_FALSE(same_bits(expected.data(), folded(values).data(), size)) << "these values do not tell the orders apart";
  const Parts parts = Parts::equal(size, 7);
  std::int64_t id = 0;
  for (const auto kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce}) {
    auto mine = values;
    std::vector<std::future<Status>> ends;
    ++id;
    for (int rank = 6; rank >= 0; --rank) ends.push_back(world.start(rank, id, {.kind = kind, .data = bytes(mine[static_cast<std::size_t>(rank)]), .parts = parts}));
    for (auto& end : ends) ASSERT_TRUE(result(end).ok());
    for (int rank = 0; rank < 7; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      for (int part = 0; part < 7; ++part) {
        const auto& right = kind == CollectiveKind::kAllReduce || part == rank ? expected : values[at];
        EXPECT_TRUE(same_bits(mine[at].data() + parts.begin(part), right.data() + parts.begin(part), parts.size(part))) << name(kind) << " at " << rank;
      }
    }
    EXPECT_EQ(world.between_nodes_bytes(), 4 * size * 2 * (kind == CollectiveKind::kAllReduce ? 3 : 1));  // the first operation's and this one's
  }
}

TEST(Collective, AllGatherBringsEveryPartAlsoEmptyOnes) {
  for (const int ranks : {1, 2, 3, 5}) {
    World world(ranks);
    Parts parts;
    for (int rank = 0; rank < ranks; ++rank) parts.boundaries.push_back(parts.boundaries.back() + (rank % 2 ? 0 : 200'000 + rank));
    const auto whole = random_values<float>(parts.elements(), 3);
    std::vector<std::vector<float>> values(static_cast<std::size_t>(ranks), std::vector<float>(whole.size(), -1));
    std::vector<std::future<Status>> ends;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& mine = values[static_cast<std::size_t>(rank)];
      std::copy(whole.begin() + parts.begin(rank), whole.begin() + parts.end(rank), mine.begin() + parts.begin(rank));
      ends.push_back(world.start(rank, 1, {.kind = CollectiveKind::kAllGather, .data = bytes(mine), .parts = parts}));
    }
    for (auto& end : ends) ASSERT_TRUE(result(end).ok());
    for (const auto& got : values) EXPECT_TRUE(same_bits(got.data(), whole.data(), parts.elements()));
  }
}

TEST(Collective, BroadcastBringsTheRootsValues) {
  const int ranks = 3;
  World world(ranks);
  const auto whole = random_values<float>(150'000, 5);
  const Parts parts{.boundaries = {0, 0, 150'000, 150'000}};  // rank 1 is the root
  std::vector<std::vector<float>> values(ranks, std::vector<float>(whole.size()));
  values[1] = whole;
  std::vector<std::future<Status>> ends;
  for (int rank = 0; rank < ranks; ++rank) {
    ends.push_back(world.start(rank, 1, {.kind = CollectiveKind::kBroadcast, .data = bytes(values[static_cast<std::size_t>(rank)]), .parts = parts}));
  }
  for (auto& end : ends) ASSERT_TRUE(result(end).ok());
  for (const auto& got : values) EXPECT_TRUE(same_bits(got.data(), whole.data(), 150'000));
}

// Case T31: a pair with nothing to send takes part.
TEST(Collective, AllToAllBringsEachItsPart) {
  const int ranks = 3;
  World world(ranks);
  const std::int64_t counts[3][3] = {{5, 0, 140'000}, {1, 2, 0}, {0, 0, 0}};  // [from][to]
  std::vector<std::vector<float>> from(ranks), into(ranks);
  std::vector<Parts> sends(ranks), receives(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t other = 0; other < ranks; ++other) {
      sends[rank].boundaries.push_back(sends[rank].boundaries.back() + counts[rank][other]);
      receives[rank].boundaries.push_back(receives[rank].boundaries.back() + counts[other][rank]);
    }
    from[rank] = random_values<float>(sends[rank].elements(), static_cast<unsigned>(rank));
    into[rank].resize(static_cast<std::size_t>(receives[rank].elements()), -1);
  }
  std::vector<std::future<Status>> ends;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ends.push_back(world.start(static_cast<int>(rank), 1,
                               {.kind = CollectiveKind::kAllToAll, .data = bytes(into[rank]), .parts = receives[rank], .from = bytes(from[rank]), .from_parts = sends[rank]}));
  }
  for (auto& end : ends) ASSERT_TRUE(result(end).ok());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t other = 0; other < ranks; ++other) {
      EXPECT_TRUE(same_bits(into[rank].data() + receives[rank].begin(static_cast<int>(other)),
                            from[other].data() + sends[other].begin(static_cast<int>(rank)), counts[other][rank]));
    }
  }
}

TEST(Collective, BarrierWaitsForAll) {
  World world(3);
  auto first = world.start(0, 1, {.what = "barrier"}), second = world.start(1, 1, {.what = "barrier"});
  EXPECT_EQ(first.wait_for(20ms), std::future_status::timeout);
  auto third = world.start(2, 1, {.what = "barrier"});
  EXPECT_TRUE(result(first).ok() && result(second).ok() && result(third).ok());
}

TEST(Collective, ManyAreInFlightAndToldApartByTheirId) {
  const int ranks = 3, operations = 40;
  World world(ranks);
  std::vector<std::vector<std::vector<float>>> values(operations);
  std::vector<std::vector<float>> expected;
  std::vector<std::future<Status>> ends;
  for (int id = 0; id < operations; ++id) {
    for (int rank = 0; rank < ranks; ++rank) values[static_cast<std::size_t>(id)].push_back(random_values<float>(20'000 + id, static_cast<unsigned>(id * 3 + rank)));
    expected.push_back(folded(values[static_cast<std::size_t>(id)]));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < operations; ++i) {
      const int id = rank == 1 ? operations - 1 - i : i;  // one member starts them the other way round
      auto& mine = values[static_cast<std::size_t>(id)][static_cast<std::size_t>(rank)];
      ends.push_back(world.start(rank, id, {.kind = CollectiveKind::kAllReduce, .data = bytes(mine), .parts = Parts::equal(20'000 + id, ranks)}));
    }
  }
  for (auto& end : ends) ASSERT_TRUE(result(end).ok());
  for (std::size_t id = 0; id < operations; ++id) {
    for (const auto& got : values[id]) EXPECT_TRUE(same_bits(got.data(), expected[id].data(), static_cast<std::int64_t>(got.size())));
  }
}

// Case A19: named at once, on every member.
TEST(Collective, AMismatchNamesBothSidesEverywhere) {
  World world(3);
  std::vector<std::vector<float>> values(3, std::vector<float>(50'000, 1));
  std::vector<std::future<Status>> ends;
  for (int rank = 0; rank < 3; ++rank) {
    const std::int64_t size = rank == 2 ? 40'000 : 50'000;
    ends.push_back(world.start(rank, 4, {.kind = CollectiveKind::kAllReduce, .data = bytes(values[static_cast<std::size_t>(rank)]), .parts = Parts::equal(size, 3), .what = "gradient of block 2"}));
  }
  for (auto& end : ends) {
    const Status status = result(end);
    ASSERT_FALSE(status.ok());
    const std::string text(status.message());
    EXPECT_NE(text.find("40000"), std::string::npos) << text;
    EXPECT_NE(text.find("50000"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
    EXPECT_NE(text.find("gradient of block 2"), std::string::npos) << text;
  }
  // what comes later fails at once with the same cause
  auto later = world.start(0, 5, {});
  EXPECT_FALSE(result(later).ok());
}

TEST(Collective, FailsEverywhereOrNowhere) {
  World world(3);
  std::vector<std::vector<float>> values(3, std::vector<float>(500'000, 1));
  auto first = world.start(0, 1, {.kind = CollectiveKind::kAllReduce, .data = bytes(values[0]), .parts = Parts::equal(500'000, 3)});
  auto second = world.start(1, 1, {.kind = CollectiveKind::kAllReduce, .data = bytes(values[1]), .parts = Parts::equal(500'000, 3)});
  world.hub().cut(Rank(2), absl::UnavailableError("rank 2 died of signal 9"));
  for (auto* end : {&first, &second}) {
    const Status status = result(*end);
    EXPECT_NE(std::string(status.message()).find("rank 2 died of signal 9"), std::string::npos) << status.message();
  }
}

TEST(CollectiveWire, RefusesWhatIsNoHeader) {
  std::mt19937_64 random(11);
  const CollectiveHeader header{.group = GroupId(3), .operation = OperationId(1L << 40), .kind = CollectiveKind::kAllGather, .type = DType::kBF16,
                                .phase = Phase::kResult, .from = 2, .elements = 1L << 41, .offset = 7, .count = 9};
  const auto good = encode(header);
  const auto read = decode_collective(good);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->operation, header.operation);
  EXPECT_EQ(read->elements, header.elements);
  EXPECT_EQ(read->kind, header.kind);
  EXPECT_EQ(read->type, header.type);
  EXPECT_EQ(read->phase, header.phase);
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(decode_collective(std::span(good).first(length)));
  for (int i = 0; i < 100'000; ++i) {
    auto bytes = good;
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    if (const auto got = decode_collective(bytes)) {
      EXPECT_LE(static_cast<int>(got->kind), 5);
      EXPECT_GE(got->offset, 0);
      EXPECT_GE(got->count, 0);
    }
  }
}

// The bytes of WIRE.md, by hand.
TEST(CollectiveWire, HasTheDocumentedBytes) {
  const auto got = encode(CollectiveHeader{.group = GroupId(0x01020304), .operation = OperationId(0x1112131415161718), .kind = CollectiveKind::kAllToAll,
                                           .type = DType::kBF16, .phase = Phase::kNodeSum, .from = 5, .elements = 6, .offset = 7, .count = 8});
  const std::vector<int> expected{4, 3, 2, 1, 5, 0, 0, 0, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 6, 0, 0, 0, 0, 0, 0, 0,
                                  7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 4, static_cast<int>(DType::kBF16), 4, 0, 0, 0, 0, 0};
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(static_cast<int>(got[i]), expected[i]) << "byte " << i;
}

// A member that sends anything: random bytes, true headers cut short or with a byte changed, with bulks that do not belong to them. Every
// operation ends, with what it should bring or with the cause.
TEST(CollectiveWire, WhateverAMemberSendsEveryOperationEnds) {
  std::mt19937_64 random(12);
  const std::vector<std::byte> bulk(4096);
  for (int trial = 0; trial < 240; ++trial) {
    LocalHub hub(2);
    const auto here = hub.transport(Rank(0)), there = hub.transport(Rank(1));
    CollectiveEngine engine(*here);
    engine.add_group(kAll, {Rank(0), Rank(1)}, trial % 2 ? std::vector<int>{0, 1} : std::vector<int>{});
    here->on_peer_down([&](Rank peer, const Status& cause) { engine.peer_down(peer, cause); });
    ASSERT_TRUE(here->start().ok() && there->start().ok());
    const auto kind = static_cast<CollectiveKind>(trial % 6);
    const std::int64_t size = kind == CollectiveKind::kBarrier ? 0 : 1000;
    std::vector<float> values(1000, 1), from(1000, 2);
    auto done = std::make_shared<std::promise<Status>>();
    auto end = done->get_future();
    engine.start(kAll, OperationId(1), {.kind = kind, .data = bytes(values), .parts = Parts::equal(size, 2), .from = bytes(from),
                                        .from_parts = Parts::equal(size, 2), .what = "fuzz"},
                 [done](const Status& status) { done->set_value(status); });
    for (int i = 0; i < 40; ++i) {
      const auto good = encode({.group = kAll, .operation = OperationId(1 + static_cast<std::int64_t>(random() % 2)), .kind = kind,
                                .phase = static_cast<Phase>(random() % 5), .from = 1, .elements = kind == CollectiveKind::kAllToAll ? 500 : size,
                                .offset = static_cast<std::int64_t>(random() % 3) * 500, .count = static_cast<std::int64_t>(random() % 3) * 500});
      std::vector<std::byte> header(good.begin(), good.end());
      switch (random() % 4) {
        case 0: header.resize(random() % header.size()); break;
        case 1: header[random() % header.size()] = static_cast<std::byte>(random()); break;
        case 2:
          for (auto& byte : header) byte = static_cast<std::byte>(random());
          break;
        default: break;
      }
      const std::size_t lengths[] = {0, 2000, 4000, random() % 4096};
      there->send({.to = Rank(0), .channel = Channel::kCollectives, .header = header, .bulk = std::span(bulk).first(lengths[random() % 4])});
    }
    hub.cut(Rank(1), absl::UnavailableError("it is gone"));
    EXPECT_FALSE(absl::IsDeadlineExceeded(result(end))) << "trial " << trial;
    there->stop();
    here->stop();
  }
}

}  // namespace
}  // namespace troupe::comm
