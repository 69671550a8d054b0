#include "runtime/device/team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::device {
namespace {

using testing::Each;
using testing::ElementsAre;

using Share = std::pair<std::int64_t, std::int64_t>;

// In order of their begin.
std::vector<Share> shares_of(ThreadTeam& team, std::int64_t count, std::int64_t grain) {
  std::mutex mutex;
  std::vector<Share> shares;
  team.split(count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::lock_guard lock(mutex);
    shares.emplace_back(begin, end);
  });
  std::sort(shares.begin(), shares.end());
  return shares;
}

// Adds in the shares' order: the rounding depends on the cuts and on nothing else.
float sum_by_shares(ThreadTeam& team, std::int64_t count) {
  std::mutex mutex;
  std::map<std::int64_t, float> sums;
  team.split(count, 16, [&](std::int64_t begin, std::int64_t end) {
    float sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += 1.0f / static_cast<float>(i + 1);
    std::lock_guard lock(mutex);
    sums[begin] = sum;
  });
  float total = 0;
  for (const auto& [begin, sum] : sums) total += sum;
  return total;
}

TEST(ThreadTeam, RunsEachMemberOnce) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> calls(static_cast<std::size_t>(size));
    for (int round = 0; round < 200; ++round) {
      team.run([&](int member, int members) {
        EXPECT_EQ(members, size);
        ++calls[static_cast<std::size_t>(member)];
      });
    }
    EXPECT_THAT(calls, Each(200)) << "a team of " << size;
  }
}

TEST(ThreadTeam, ReturnsWhenAllMembersHave) {
  ThreadTeam team(3);
  std::vector<int> wrote(3);
  std::atomic<int> turn{0};  // one after the other, the caller's own part first
  team.run([&](int member, int) {
    while (turn.load() != member) std::this_thread::yield();
    wrote[static_cast<std::size_t>(member)] = member + 1;
    ++turn;
  });
  EXPECT_THAT(wrote, ElementsAre(1, 2, 3));
}

TEST(ThreadTeam, HasTheCallerAsMemberZeroAndAThreadForEachOther) {
  ThreadTeam team(3);
  std::vector<std::thread::id> first(3), later(3);
  team.run([&](int member, int) { first[static_cast<std::size_t>(member)] = std::this_thread::get_id(); });
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_NE(first[1], first[0]);
  EXPECT_NE(first[2], first[0]);
  EXPECT_NE(first[1], first[2]);
  for (int round = 0; round < 20; ++round) {
    team.run([&](int member, int) { later[static_cast<std::size_t>(member)] = std::this_thread::get_id(); });
    EXPECT_EQ(later, first);
  }
}

TEST(ThreadTeam, OfOneRunsOnTheCallerAlone) {
  ThreadTeam team(1);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  team.run([&](int member, int members) {
    EXPECT_EQ(member, 0);
    EXPECT_EQ(members, 1);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(shares_of(team, 1000, 16), ElementsAre(Share(0, 1000)));
}

TEST(ThreadTeam, WakesUpAfterALongPause) {
  ThreadTeam team(3);
  std::vector<int> calls(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far longer than members spin
    team.run([&](int member, int) { ++calls[static_cast<std::size_t>(member)]; });
  }
  EXPECT_THAT(calls, Each(5));
}

TEST(ThreadTeam, EndsAtOnceWhetherItRanOrNot) {
  std::atomic<int> calls{0};
  for (int i = 0; i < 50; ++i) {
    ThreadTeam never_ran(3), ran(3);
    ran.run([&calls](int, int) { ++calls; });
  }
  EXPECT_EQ(calls.load(), 150);  // and got here: no destructor waits for a member that sleeps
}

TEST(ThreadTeam, SplitsTheRangeWithoutGapOrOverlap) {
  for (const int size : {1, 2, 3, 4, 7}) {
    ThreadTeam team(size);
    for (const std::int64_t count : {0, 1, 2, 7, 8, 63, 64, 65, 1000, 1001}) {
      for (const std::int64_t grain : {1, 3, 8, 64, 5000}) {
        const std::string what = std::to_string(count) + " by " + std::to_string(grain) + " among " +
                                 std::to_string(size);
        const auto shares = shares_of(team, count, grain);
        EXPECT_LE(shares.size(), static_cast<std::size_t>(size)) << what;
        std::int64_t covered = 0;
        for (const auto& [begin, end] : shares) {
          EXPECT_EQ(begin, covered) << what;
          EXPECT_LE(begin, end) << what;
          EXPECT_EQ(begin % grain, 0) << what;
          covered = end;
        }
        EXPECT_EQ(covered, count) << what;
      }
    }
  }
}

TEST(ThreadTeam, SplitsAmongAllMembersWhenThereIsEnough) {
  ThreadTeam team(4);
  EXPECT_EQ(shares_of(team, 4, 1).size(), 4u);
  EXPECT_EQ(shares_of(team, 4 * 64, 64).size(), 4u);
  EXPECT_THAT(shares_of(team, 1024, 64),
              ElementsAre(Share(0, 256), Share(256, 512), Share(512, 768), Share(768, 1024)));
}

TEST(ThreadTeam, SplitsTheSameWayForTheSameSize) {
  ThreadTeam team(3), another(3);
  for (const std::int64_t count : {1, 10, 1000, 12345}) {
    const auto shares = shares_of(team, count, 8);
    for (int round = 0; round < 5; ++round) EXPECT_EQ(shares_of(team, count, 8), shares);
    EXPECT_EQ(shares_of(another, count, 8), shares);
  }
}

TEST(ThreadTeam, GivesTheSameBitsForTheSameSize) {
  for (const int size : {1, 2, 3}) {
    ThreadTeam team(size), another(size);
    const auto bits = std::bit_cast<std::uint32_t>(sum_by_shares(team, 10'007));
    for (int round = 0; round < 10; ++round) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(sum_by_shares(team, 10'007)), bits);
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(sum_by_shares(another, 10'007)), bits);
  }
}

}  // namespace
}  // namespace troupe::device
