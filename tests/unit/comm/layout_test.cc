// Who acts for a node, and the ways of results, over layouts of all kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>

#include "comm/collective/folding.h"
#include "comm/collective/layout.h"

namespace troupe::comm {
namespace {

// Uneven nodes, neighbours or not.
std::vector<int> random_nodes(std::mt19937& random, int members) {
  std::vector<int> nodes;
  const int kinds = 1 + static_cast<int>(random() % 4);
  for (int member = 0; member < members; ++member) nodes.push_back(7 * static_cast<int>(random() % static_cast<unsigned>(kinds)));
  return nodes;
}

TEST(Layout, CountsNodesInTheOrderOfTheirFirstMembers) {
  const Layout layout(5, {9, 2, 9, 2, 4});
  EXPECT_EQ(layout.nodes(), 3);
  EXPECT_EQ(layout.members(0), (std::vector{0, 2}));
  EXPECT_EQ(layout.members(1), (std::vector{1, 3}));
  EXPECT_EQ(layout.members(2), (std::vector{4}));
  EXPECT_TRUE(layout.share_node(1, 3));
  EXPECT_FALSE(layout.share_node(0, 4));
  EXPECT_EQ(Layout(3, {}).nodes(), 1);
}

TEST(Layout, SpreadsTheSumsForAnotherNodeOverItsMembers) {
  const Layout layout(6, {0, 0, 0, 1, 1, 1});
  for (int part = 0; part < 3; ++part) EXPECT_EQ(layout.delegate(1, part), part + 3);
  for (int part = 3; part < 6; ++part) EXPECT_EQ(layout.delegate(0, part), part - 3);
  EXPECT_EQ(layout.folds(2, 1), 1);  // on the owner's node: the owner
}

TEST(Layout, EverybodyHearsEveryPartOnce) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 500; ++trial) {
    const int members = 1 + static_cast<int>(random() % 12);
    const Layout layout(members, random_nodes(random, members));
    for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kBroadcast}) {
      for (int part = 0; part < members; ++part) {
        std::vector<int> heard_from(static_cast<std::size_t>(members), -1);
        int between = 0;
        std::queue<int> has({part});
        for (; !has.empty(); has.pop()) {
          for (const int to : layout.result_to(kind, part, has.front())) {
            ASSERT_NE(to, part);
            ASSERT_EQ(heard_from[static_cast<std::size_t>(to)], -1) << "twice";
            heard_from[static_cast<std::size_t>(to)] = has.front();
            between += layout.share_node(to, has.front()) ? 0 : 1;
            EXPECT_EQ(layout.result_from(kind, part, to), has.front());
            has.push(to);
          }
        }
        EXPECT_EQ(std::count(heard_from.begin(), heard_from.end(), -1), 1) << "all but the owner";
        EXPECT_EQ(between, layout.nodes() - 1) << "once to each node";
      }
    }
  }
}

// The root and everybody on the way send a number of times that grows with the logarithm only.
TEST(Layout, ABroadcastIsATree) {
  for (const int members : {2, 7, 8, 33, 64}) {
    const Layout layout(members, {});
    for (int member = 0; member < members; ++member) {
      EXPECT_LE(layout.result_to(CollectiveKind::kBroadcast, 3 % members, member).size(), 6u);
    }
  }
  EXPECT_EQ(Layout(64, {}).result_to(CollectiveKind::kBroadcast, 0, 0).size(), 6u);
}

TEST(Folding, EveryAddendHasOneWhoFoldsItInEveryNode) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 300; ++trial) {
    const int members = 1 + static_cast<int>(random() % 9);
    const Layout layout(members, random_nodes(random, members));
    Parts parts;
    for (int member = 0; member < members; ++member) parts.boundaries.push_back(parts.boundaries.back() + static_cast<int>(random() % 40));
    std::vector<std::vector<int>> folded(static_cast<std::size_t>(layout.nodes()), std::vector<int>(static_cast<std::size_t>(parts.elements())));
    for (int member = 0; member < members; ++member) {
      std::int64_t round = 0;
      for (const auto& piece : Folding::pieces(layout, parts, member, 7)) {
        EXPECT_LE(piece.count(), 7);
        EXPECT_GT(piece.count(), 0);
        EXPECT_GE((piece.begin - parts.begin(piece.part)) / 7, round) << "first chunks of all, then second ones";
        round = (piece.begin - parts.begin(piece.part)) / 7;
        for (auto at = piece.begin; at < piece.end; ++at) ++folded[static_cast<std::size_t>(layout.node_of(member))][static_cast<std::size_t>(at)];
      }
    }
    for (const auto& node : folded) EXPECT_EQ(std::count(node.begin(), node.end(), 1), parts.elements());
  }
}

}  // namespace
}  // namespace troupe::comm
