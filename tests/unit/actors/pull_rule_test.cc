#include "actors/train/pull_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/rng.h"

namespace troupe::actors {
namespace {

using Paces = std::vector<std::int64_t>;  // ns that each replica takes for a micro-batch
constexpr std::int64_t kUnit = 3'000'000;

// Replicas of made-up speeds, each asking for one beyond the one it computes.
class Race {
 public:
  Race(Paces paces, int micro_batches, bool by_rule = true)
      : rule_(static_cast<int>(paces.size()), micro_batches), by_rule_(by_rule), paces_(std::move(paces)) {}
  void set_pace(std::size_t replica, std::int64_t pace_ns) { paces_[replica] = pace_ns; }

  struct Step {
    std::vector<int> shares;
    std::int64_t took_ns = 0;
  };
  Step step() {
    const std::int64_t start_ns = now_ns_;
    racers_.assign(paces_.size(), {});
    rule_.open_step();
    hand_out(1);  // what they ask for before the step is open
    for (std::size_t i = 0; i < racers_.size(); ++i) begin(i);
    while (true) {
      hand_out(2);
      std::int64_t next_ns = INT64_MAX;
      for (const auto& racer : racers_) {
        if (racer.ends_ns >= 0) next_ns = std::min(next_ns, racer.ends_ns);
      }
      if (next_ns == INT64_MAX) break;
      if (waits_) next_ns = std::min(next_ns, now_ns_ + rule_.patience_ns());
      now_ns_ = next_ns;
      for (std::size_t i = 0; i < racers_.size(); ++i) end(i);
    }
    EXPECT_EQ(rule_.left(), 0) << "all that are left ask and none may";
    Step made{.took_ns = now_ns_ - start_ns};
    for (const auto& racer : racers_) made.shares.push_back(racer.given);
    now_ns_ += kUnit;  // the update
    return made;
  }

 private:
  struct Racer {
    int given = 0, finished = 0;
    std::int64_t ends_ns = -1;  // of the one it computes
  };
  void hand_out(int most) {
    std::vector<bool> asks;
    for (std::size_t i = 0; i < racers_.size(); ++i) asks.push_back(racers_[i].given - racers_[i].finished < most);
    while (rule_.left() > 0) {
      auto chosen = rule_.choose(asks, now_ns_);
      const auto first = std::find(asks.begin(), asks.end(), true);
      if (!by_rule_ && first != asks.end()) chosen = static_cast<int>(first - asks.begin());
      if (!chosen) break;
      rule_.give(*chosen);
      const auto i = static_cast<std::size_t>(*chosen);
      ++racers_[i].given;
      asks[i] = racers_[i].given - racers_[i].finished < most;
      if (most > 1 && racers_[i].ends_ns < 0) begin(i);
    }
    waits_ = rule_.left() > 0;
  }
  void begin(std::size_t i) {
    auto& racer = racers_[i];
    if (racer.finished < racer.given) racer.ends_ns = now_ns_ + paces_[i];
    rule_.progressed(static_cast<int>(i), racer.finished, true, 0, now_ns_);
  }
  void end(std::size_t i) {
    auto& racer = racers_[i];
    if (racer.ends_ns != now_ns_) return;
    ++racer.finished;
    racer.ends_ns = racer.finished < racer.given ? now_ns_ + paces_[i] : -1;
    rule_.progressed(static_cast<int>(i), racer.finished, true, paces_[i], now_ns_);
  }

  PullRule rule_;
  const bool by_rule_;
  Paces paces_;
  std::vector<Racer> racers_;
  std::int64_t now_ns_ = 1'000;
  bool waits_ = false;
};

// When the last of all micro-batches is done if each goes to the replica that would finish it first: no sharing ends earlier.
std::int64_t best_ns(const Paces& paces, int micro_batches) {
  std::vector<std::int64_t> free(paces.size(), 0);
  for (int i = 0; i < micro_batches; ++i) {
    std::size_t best = 0;
    for (std::size_t r = 1; r < paces.size(); ++r) {
      if (free[r] + paces[r] < free[best] + paces[best]) best = r;
    }
    free[best] += paces[best];
  }
  return *std::max_element(free.begin(), free.end());
}

TEST(PullRule, GivesAReplicaThreeTimesSlowerAThird) {
  Race race({kUnit, 3 * kUnit}, 12);
  race.step();  // nothing is measured yet
  for (int i = 0; i < 5; ++i) {
    const auto step = race.step();
    EXPECT_EQ(step.shares, (std::vector<int>{9, 3}));
    EXPECT_EQ(step.took_ns, 9 * kUnit);
  }
}

// What it is for: whoever has room takes the next one, and all wait for the slow one's last.
TEST(PullRule, WithoutItTheSlowOneBeginsOneTooLate) {
  Race race({kUnit, 3 * kUnit}, 12, /*by_rule=*/false);
  race.step();
  EXPECT_EQ(race.step().took_ns, 12 * kUnit);
}

TEST(PullRule, EndsAsEarlyAsTheBestShares) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream random({.seed = seed});
    Paces paces;
    for (std::uint64_t r = 0; r < 2 + seed % 4; ++r) paces.push_back(kUnit + random.at(r) % (5 * kUnit));
    const int micro_batches = static_cast<int>(paces.size()) + static_cast<int>(random.at(99) % 40);
    Race race(paces, micro_batches);
    const std::int64_t best = best_ns(paces, micro_batches);
    EXPECT_LE(race.step().took_ns, best + 2 * *std::max_element(paces.begin(), paces.end())) << "seed " << seed << ", nothing measured";
    const auto measured = race.step();
    EXPECT_EQ(measured.took_ns, best) << "seed " << seed;
    EXPECT_EQ(std::accumulate(measured.shares.begin(), measured.shares.end(), 0), micro_batches);
  }
}

TEST(PullRule, SharesEvenlyAmongEquals) {
  Race race({kUnit, kUnit, kUnit, kUnit}, 16);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(race.step().shares, (std::vector<int>{4, 4, 4, 4}));
}

TEST(PullRule, NeverRefusesAllOfThem) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const RandomStream random({.seed = seed, .use = 1});
    const int replicas = 1 + static_cast<int>(random.at(0) % 6);
    PullRule rule(replicas, 9);
    rule.open_step();
    std::int64_t now_ns = 1;
    for (std::uint64_t i = 0; rule.left() > 0; ++i) {
      now_ns += random.at(10 + 2 * i) % kUnit;
      const int replica = static_cast<int>(random.at(11 + 2 * i) % static_cast<std::uint32_t>(replicas));
      const auto finished = static_cast<int>(random.at(500 + i) % static_cast<std::uint32_t>(rule.given(replica) + 1));
      rule.progressed(replica, finished, random.at(900 + i) % 2 == 0, random.at(700 + i) % kUnit, now_ns);
      const auto chosen = rule.choose(std::vector<bool>(static_cast<std::size_t>(replicas), true), now_ns);
      ASSERT_TRUE(chosen) << "seed " << seed;
      rule.give(*chosen);
    }
  }
}

TEST(PullRule, OneThatSlowsDownGetsFewerInTheSameStep) {
  Race race({kUnit, kUnit}, 24);
  EXPECT_EQ(race.step().shares, (std::vector<int>{12, 12}));
  race.set_pace(1, 3 * kUnit);
  EXPECT_LE(race.step().took_ns, 21 * kUnit);
  EXPECT_EQ(race.step().shares, (std::vector<int>{18, 6}));
}

// Replica 1 is too slow for any of the four, then as fast as the other.
TEST(PullRule, TriesOneAgainThatGotNone) {
  Race race({kUnit, 20 * kUnit}, 4);
  race.step();
  EXPECT_EQ(race.step().shares, (std::vector<int>{4, 0}));
  race.set_pace(1, kUnit);
  int steps = 0;
  while (race.step().shares[1] == 0 && ++steps < 40) {
  }
  EXPECT_LT(steps, 40);
  EXPECT_EQ(race.step().shares, (std::vector<int>{2, 2}));
}

// No word from replica 0, which used to be the faster one.
TEST(PullRule, GoesRoundOneThatStandsStill) {
  PullRule rule(2, 4);
  rule.open_step();
  rule.give(0);
  rule.give(1);
  rule.progressed(0, 0, true, 0, 0);
  rule.progressed(1, 0, true, 0, 0);
  rule.progressed(0, 1, true, kUnit, kUnit);
  EXPECT_TRUE(rule.may_take(0, kUnit));
  rule.give(0);
  rule.progressed(1, 1, true, 8 * kUnit, 8 * kUnit / 4);
  EXPECT_FALSE(rule.may_take(1, 2 * kUnit));
  EXPECT_TRUE(rule.may_take(1, 20 * kUnit));
}

}  // namespace
}  // namespace troupe::actors
