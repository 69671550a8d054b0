// What a member of a collective does with each frame that another may send: who may speak for whom, what is named, how much is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "comm/collective/engine.h"
#include "comm/collective/operation.h"
#include "comm/collective/wire.h"
#include "tests/sim/comm/by_hand.h"

namespace troupe::test {
namespace {

using comm::Collective, comm::CollectiveHeader, comm::CollectiveKind, comm::GroupId, comm::OperationId, comm::Parts, comm::Phase;
using device::DType;
using testing::HasSubstr;

constexpr GroupId kAll{1}, kPair{2};
constexpr OperationId kOperation{7};

class Member : public ByHand {
 public:
  explicit Member(int world = 3, const std::vector<int>& node_of = {}) : ByHand(world, comm::Channel::kCollectives), engine(transport()) {
    std::vector<Rank> members;
    for (int rank = 0; rank < world; ++rank) members.push_back(Rank(rank));
    engine.add_group(kAll, members, node_of);
    engine.add_group(kPair, {Rank(0), Rank(1)});
    start();
  }
  ~Member() { transport().stop(); }

  // Everybody's part of a vector of as many elements as there are values.
  void enter(CollectiveKind kind, std::vector<float> values, Parts parts, GroupId group = kAll) {
    data[group] = std::move(values);
    engine.start(group, kOperation, {.kind = kind, .data = reinterpret_cast<std::byte*>(data[group].data()), .parts = std::move(parts), .what = "test"},
                 [this, group](const Status& status) { ends[group] = status; });
    run();
  }
  void enter(CollectiveKind kind, std::vector<float> values) {
    const auto elements = static_cast<std::int64_t>(values.size());
    enter(kind, std::move(values), Parts::equal(elements, network->world()));
  }
  Sent& say(int rank, CollectiveHeader header, const std::vector<float>& values) {
    return send(rank, comm::encode(header), std::as_bytes(std::span(values)));
  }
  // All that is under way is taken, and what comes then.
  void settle() {
    for (bool more = true; more;) {
      run();
      more = false;
      for (int rank = 1; rank < network->world(); ++rank) {
        more = more || !of(rank).empty();
        take(rank);
      }
    }
  }
  // Whether `rank` has been told that the group has failed.
  bool told(int rank) {
    return std::any_of(of(rank).begin(), of(rank).end(), [](const Got& frame) {
      const auto header = comm::decode_collective(frame.header);
      return header && header->phase == Phase::kFailed;
    });
  }
  std::string failure(GroupId group = kAll) {
    const auto& end = ends[group];
    return !end ? "it has not ended" : std::string(end->message());
  }

  comm::CollectiveEngine engine;
  std::map<GroupId, std::vector<float>> data;
  std::map<GroupId, std::optional<Status>> ends;
};

CollectiveHeader addend(int from, std::int64_t elements) {
  return {.group = kAll, .operation = kOperation, .kind = CollectiveKind::kAllReduce, .type = DType::kF32, .phase = Phase::kAddend, .from = from,
          .elements = elements, .offset = 0, .count = elements};
}

TEST(CollectiveFrames, NobodySpeaksForAnother) {
  Member member;
  member.enter(CollectiveKind::kAllReduce, {1, 2, 3, 4});
  const std::vector<float> wrong{-1, -1, -1, -1};
  for (const int from : {0, 2, 3, std::numeric_limits<int>::max()}) {
    auto& sent = member.say(1, addend(from, 4), wrong);
    member.settle();
    EXPECT_TRUE(sent.end && absl::IsCancelled(*sent.end)) << "as member " << from;
  }
  auto of_another_group = addend(1, 4);
  of_another_group.group = GroupId(9);
  member.say(1, of_another_group, wrong);
  member.send(1, std::as_bytes(std::span(wrong)).first(11));
  member.settle();
  EXPECT_FALSE(member.ends[kAll]);
  member.say(1, addend(1, 4), {10, 20, 30, 40});
  member.say(2, addend(2, 4), {100, 200, 300, 400});
  member.settle();
  EXPECT_EQ(member.ends[kAll], ok());
  EXPECT_EQ(member.data[kAll], (std::vector<float>{111, 222, 333, 444}));
}

TEST(CollectiveFrames, AGroupFailsAlone) {
  Member member;
  member.enter(CollectiveKind::kAllReduce, {1, 2, 3, 4});
  member.enter(CollectiveKind::kAllReduce, {1, 2, 3, 4}, Parts::equal(4, 2), kPair);
  member.settle();
  member.say(1, addend(1, 5), {1, 1, 1, 1, 1});
  member.run();
  EXPECT_THAT(member.failure(), HasSubstr("all members must call the same"));
  EXPECT_TRUE(member.told(2));
  EXPECT_FALSE(member.ends[kPair]);
  auto right = addend(1, 4);
  right.group = kPair;
  member.say(1, right, {10, 20, 30, 40});
  member.settle();
  EXPECT_EQ(member.ends[kPair], ok());
  EXPECT_EQ(member.data[kPair], (std::vector<float>{11, 22, 33, 44}));
}

TEST(CollectiveFrames, ALongCauseIsToldAsFarAsItFits) {
  Member member;
  member.enter(CollectiveKind::kAllReduce, {1, 2, 3, 4});
  member.settle();
  member.on(0, [&] { member.engine.peer_down(Rank(2), absl::UnavailableError(std::string(9'000, 'x'))); });
  member.run();
  ASSERT_TRUE(member.told(1));
  EXPECT_EQ(comm::text_after_header(member.of(1).back().header), std::string(comm::kHeaderBytesMost - comm::kCollectiveHeaderBytes, 'x'));
}

// What a member says that does not belong to what we do: named on both sides, and the group ends everywhere. CASES A19.
TEST(CollectiveFrames, WhatDoesNotFitEndsTheGroupAndIsNamed) {
  struct Odd {
    const char* what;
    CollectiveKind kind;             // ours
    CollectiveHeader header;         // what rank 1 sends, with so many values
    int values;
    std::vector<std::string> named;
    std::vector<int> node_of = {};
  };
  using enum CollectiveKind;
  const auto with = [](CollectiveHeader header, auto change) {
    change(header);
    return header;
  };
  const auto result = [&](std::int64_t offset, std::int64_t count) {
    return with(addend(1, 9), [&](auto& h) { h.kind = kAllGather, h.phase = Phase::kResult, h.offset = offset, h.count = count; });
  };
  const std::vector<std::string> out_of_turn{"rank 1", "out of turn"}, differ{"rank 1", "rank 0", "all members must call the same"};
  const Odd odds[] = {
      {"a shorter bulk than it says", kAllReduce, addend(1, 9), 8, {"rank 1 sent 32 bytes", "whose header tells 36"}},
      {"another type", kAllReduce, with(addend(1, 9), [](auto& h) { h.type = DType::kBF16; }), 9, {"9 x bf16", "9 x fp32", "all members must call the same"}},
      {"another kind", kAllReduce, with(addend(1, 9), [](auto& h) { h.kind = kReduceScatter; }), 9, differ},
      {"more elements", kAllReduce, addend(1, 10), 10, {"10 x fp32", "9 x fp32"}},
      {"part of an addend", kAllReduce, with(addend(1, 9), [](auto& h) { h.count = 8; }), 8, {"rank 1", "0 + 8", "0 + 9 were due"}},
      {"the end of an addend", kAllReduce, with(addend(1, 9), [](auto& h) { h.offset = 1, h.count = 8; }), 8, {"1 + 8", "0 + 9 were due"}},
      {"an empty addend", kAllReduce, with(addend(1, 9), [](auto& h) { h.count = 0; }), 0, out_of_turn},
      {"a node's sum, from our own node", kAllReduce, with(addend(1, 9), [](auto& h) { h.phase = Phase::kNodeSum; }), 9, out_of_turn},
      {"an addend from another node", kAllReduce, addend(1, 9), 9, out_of_turn, {0, 1, 0}},
      {"an addend to what is no sum", kAllGather, with(result(3, 3), [](auto& h) { h.phase = Phase::kAddend; }), 3, out_of_turn},
      {"our own part", kAllGather, result(0, 3), 3, out_of_turn},
      {"the part of a third", kAllGather, result(6, 3), 3, out_of_turn},
      {"more than its part", kAllGather, result(3, 4), 4, out_of_turn},
      {"what lies behind the end", kAllGather, result(9, 3), 3, out_of_turn},
      {"an empty result", kAllGather, result(3, 0), 0, out_of_turn},
  };
  for (const Odd& odd : odds) {
    SCOPED_TRACE(odd.what);
    Member member(3, odd.node_of);
    member.enter(odd.kind, std::vector<float>(9, 1));
    member.settle();
    member.say(1, odd.header, std::vector<float>(static_cast<std::size_t>(odd.values), 1));
    member.run();
    for (const auto& name : odd.named) EXPECT_THAT(member.failure(), HasSubstr(name));
    EXPECT_TRUE(member.told(1));
    EXPECT_TRUE(member.told(2));
  }
}

TEST(CollectiveFrames, AnAllToAllTakesNoMoreThanThePartHasRoomFor) {
  for (const std::int64_t offset : {0, 1, 3}) {
    Member member;
    std::vector<float> into(9), from(9);
    std::optional<Status> end;
    member.engine.start(kAll, kOperation, {.kind = CollectiveKind::kAllToAll, .data = reinterpret_cast<std::byte*>(into.data()), .parts = Parts::equal(9, 3),
                                           .from = reinterpret_cast<const std::byte*>(from.data()), .from_parts = Parts::equal(9, 3), .what = "tokens"},
                        [&](const Status& status) { end = status; });
    member.settle();
    auto header = addend(1, 3);
    header.kind = CollectiveKind::kAllToAll, header.phase = Phase::kResult, header.offset = offset, header.count = offset == 0 ? 4 : 3;
    member.say(1, header, std::vector<float>(static_cast<std::size_t>(header.count), 5));
    member.run();
    ASSERT_TRUE(end);
    EXPECT_THAT(std::string(end->message()), HasSubstr("out of turn")) << offset;
    EXPECT_EQ(into, std::vector<float>(9));
  }
}

TEST(CollectiveFrames, AFewAreUnderWayToOneReceiver) {
  Member member;
  const std::int64_t chunk = comm::Operation::kChunkBytes / 4;
  member.enter(CollectiveKind::kReduceScatter, std::vector<float>(static_cast<std::size_t>(10 * chunk), 1), Parts{.boundaries = {0, 0, 10 * chunk, 10 * chunk}});
  EXPECT_EQ(member.of(1).size(), static_cast<std::size_t>(comm::Operation::kWindow));
  EXPECT_EQ(member.of(2).size(), 0u);
  EXPECT_FALSE(member.ends[kAll]);
  member.take(1, 1);
  member.run();
  EXPECT_EQ(member.of(1).size(), static_cast<std::size_t>(comm::Operation::kWindow));
  member.settle();
  EXPECT_EQ(member.ends[kAll], ok());
}

// Ranks 0 and 1 share a node, where 0 sums for 2: as long as 2 takes nothing, no more sums are made than may be kept.
TEST(CollectiveFrames, ANodesSumsWaitForWhoDoesNotTakeThem) {
  Member member(3, {0, 0, 1});
  const std::int64_t chunk = comm::Operation::kChunkBytes / 4, chunks = 20;
  const std::vector<float> ones(static_cast<std::size_t>(chunk), 1);
  member.enter(CollectiveKind::kReduceScatter, std::vector<float>(static_cast<std::size_t>(chunks * chunk), 1),
               Parts{.boundaries = {0, 0, 0, chunks * chunk}});
  std::vector<ByHand::Sent*> sent;
  for (std::int64_t i = 0; i < chunks; ++i) {
    auto header = addend(1, chunks * chunk);
    header.kind = CollectiveKind::kReduceScatter, header.offset = i * chunk, header.count = chunk;
    sent.push_back(&member.say(1, header, ones));
  }
  member.run();
  const auto fetched = std::count_if(sent.begin(), sent.end(), [](const auto* one) { return one->end.has_value(); });
  EXPECT_GE(fetched, comm::Operation::kWindow);
  EXPECT_LE(fetched, comm::Operation::kWindow + 2);
  EXPECT_EQ(member.of(2).size(), static_cast<std::size_t>(comm::Operation::kWindow));
  std::int64_t twos = 0;
  for (bool more = true; more; member.run()) {
    more = !member.of(2).empty();
    const auto& bytes = member.take(2);
    member.run();
    for (std::size_t at = 0; at < bytes.size(); at += 4) {
      float value = 0;
      std::memcpy(&value, bytes.data() + at, 4);
      twos += value == 2 ? 1 : 0;
    }
  }
  EXPECT_EQ(twos, chunks * chunk);
  EXPECT_EQ(member.ends[kAll], ok());
}

}  // namespace
}  // namespace troupe::test
