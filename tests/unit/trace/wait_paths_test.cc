#include "runtime/trace/wait_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace troupe::trace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Edges = std::vector<std::pair<int, int>>;

TEST(WaitPaths, ListsEachCycleOnceWithItsSmallestNodeFirst) {
  EXPECT_THAT(WaitPaths(3, Edges{{2, 0}, {0, 1}, {1, 2}}).cycles(9), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_THAT(WaitPaths(4, Edges{{3, 1}, {1, 3}, {0, 1}, {3, 2}}).cycles(9), ElementsAre(ElementsAre(1, 3)));
  EXPECT_THAT(WaitPaths(3, Edges{{0, 1}, {1, 0}, {0, 2}, {2, 0}}).cycles(9), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2)));
  EXPECT_THAT(WaitPaths(2, Edges{{1, 1}}).cycles(9), ElementsAre(ElementsAre(1)));
  EXPECT_THAT(WaitPaths(3, Edges{{0, 1}, {1, 2}, {0, 2}}).cycles(9), IsEmpty());
  EXPECT_THAT(WaitPaths(0, Edges{}).cycles(9), IsEmpty());
}

TEST(WaitPaths, ListsNoMoreCyclesThanAsked) {
  Edges edges;
  for (int i = 0; i < 10; ++i) edges.insert(edges.end(), {{2 * i, 2 * i + 1}, {2 * i + 1, 2 * i}});
  const WaitPaths paths(20, edges);
  EXPECT_EQ(paths.cycles(3).size(), 3u);
  EXPECT_EQ(paths.cycles(100).size(), 10u);
}

TEST(WaitPaths, FollowsAChainToItsEnd) {
  const WaitPaths paths(6, Edges{{0, 1}, {1, 2}, {2, 3}, {1, 4}, {4, 1}, {5, 5}});
  const std::vector<bool> none(6), circle{false, true, false, false, true, true};
  EXPECT_THAT(paths.chain(0, none), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(paths.chain(0, circle), ElementsAre(0, 1));
  EXPECT_THAT(paths.chain(3, none), ElementsAre(3));
  EXPECT_THAT(paths.chain(5, none), IsEmpty());
  EXPECT_THAT(paths.chain(5, circle), ElementsAre(5));
}

TEST(WaitPaths, CountsWhoWaitsDirectlyOrNot) {
  const WaitPaths paths(5, Edges{{0, 1}, {1, 2}, {3, 2}, {2, 4}, {2, 1}});
  EXPECT_EQ(paths.count_waiting(4), 4u);
  EXPECT_EQ(paths.count_waiting(2), 3u);
  EXPECT_EQ(paths.count_waiting(0), 0u);
}

// Random graphs, against the closure of "waits for" by its definition: whoever waits for itself is in a listed cycle, nobody else is.
TEST(WaitPaths, FindsEverybodyWhoIsInACycle) {
  std::mt19937 random(3);
  int in_cycles = 0, outside = 0;
  for (int round = 0; round < 300; ++round) {
    constexpr int kNodes = 12;
    Edges edges;
    bool reaches[kNodes][kNodes] = {};
    for (int i = 0; i < 8 + round % 10; ++i) {
      const auto from = static_cast<int>(random() % kNodes), to = static_cast<int>(random() % kNodes);
      edges.emplace_back(from, to);
      reaches[from][to] = true;
    }
    for (int k = 0; k < kNodes; ++k) {
      for (int i = 0; i < kNodes; ++i) {
        for (int j = 0; j < kNodes; ++j) reaches[i][j] = reaches[i][j] || (reaches[i][k] && reaches[k][j]);
      }
    }
    const auto cycles = WaitPaths(kNodes, edges).cycles(100);
    std::set<int> found;
    for (const auto& cycle : cycles) {
      EXPECT_EQ(*std::ranges::min_element(cycle), cycle.front());
      for (std::size_t i = 0; i < cycle.size(); ++i) {
        const std::pair<int, int> step(cycle[i], cycle[(i + 1) % cycle.size()]);
        EXPECT_NE(std::ranges::find(edges, step), edges.end()) << round;
      }
      found.insert(cycle.begin(), cycle.end());
    }
    EXPECT_EQ((std::set<std::vector<int>>(cycles.begin(), cycles.end()).size()), cycles.size());
    for (int node = 0; node < kNodes; ++node) {
      EXPECT_EQ(found.contains(node), reaches[node][node]) << round << " " << node;
      ++(reaches[node][node] ? in_cycles : outside);
    }
  }
  EXPECT_GT(in_cycles, 300);
  EXPECT_GT(outside, 300);
}

TEST(WaitPaths, KnowsWhichCirclesANodeIsIn) {
  const std::vector<std::pair<int, int>> edges{{0, 1}, {1, 2}, {2, 0}, {2, 3}, {3, 4}, {4, 3}, {4, 5}, {6, 0}, {7, 7}};
  const auto circle = WaitPaths(9, edges).circle_of();
  EXPECT_EQ(circle[0], circle[1]);
  EXPECT_EQ(circle[0], circle[2]);
  EXPECT_EQ(circle[3], circle[4]);
  EXPECT_NE(circle[0], circle[3]);
  for (const std::size_t in_none : {5u, 6u, 8u}) EXPECT_EQ(circle[in_none], -1) << in_none;
  for (const std::size_t in_one : {0u, 3u, 7u}) EXPECT_GE(circle[in_one], 0) << in_one;
}

}  // namespace
}  // namespace troupe::trace
