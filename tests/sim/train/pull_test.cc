// Replicas that pull: a slow one takes fewer micro-batches, whatever the order of events; what was recorded is done again, bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/log.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

constexpr int kMicroBatches = 12;

class Pull : public testing::Test {
 protected:
  Pull() { set_log_level(LogLevel::kError); }
  ~Pull() override { set_log_level(LogLevel::kInfo); }

  std::string folder(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }
  static std::string metrics(const std::string& output) { return output + "/metrics.jsonl"; }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

TrialOptions with_slow_rank(Rank slow, int times, int others = 1) {
  TrialOptions options;
  options.wrap = [slow, times, others](std::unique_ptr<device::Stream> stream, Rank rank) -> std::unique_ptr<device::Stream> {
    if (stream->name() != "compute") return stream;
    return std::make_unique<Slowed>(std::move(stream), rank == slow ? times : others);
  };
  return options;
}

// What is wrong with who computed what, or empty.
std::string fault_of(const Outcome& outcome, int replicas) {
  if (outcome.assigned.size() != outcome.steps.size()) return "a step without its assignment";
  for (const auto& shares : outcome.assigned) {
    if (static_cast<int>(shares.size()) != replicas) return absl::StrCat(shares.size(), " shares");
    std::vector<int> all, each(kMicroBatches);
    for (const auto& share : shares) all.insert(all.end(), share.begin(), share.end());
    std::sort(all.begin(), all.end());
    std::iota(each.begin(), each.end(), 0);
    if (all != each) return "not each micro-batch once";
  }
  return {};
}

void expect_close(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i] / b.losses[i], 1, 1e-6) << "step " << i + 1;
  EXPECT_EQ(a.sample_hashes, b.sample_hashes);
}

// A micro-batch takes far longer than a message, as in earnest.
TEST_F(Pull, ASlowReplicaTakesFewer) {
  int slow = 0, fast = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const JobShape shape{.replicas = 2, .zero = static_cast<int>(seed / 2 % 2), .pulls = true};
    const Rank victim(static_cast<std::int32_t>(seed % 2));
    const Trial trial = run_trial(seed, shape, corpus_, folder(absl::StrCat("slow-", seed)), with_slow_rank(victim, 30, 10));
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
    ASSERT_EQ(trial.broken, "");
    ASSERT_EQ(trial.unfinished, "");
    ASSERT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
    ASSERT_EQ(fault_of(trial.outcome, 2), "");
    for (std::size_t step = 1; step < trial.outcome.assigned.size(); ++step) {  // in the first nothing is measured yet
      const auto& shares = trial.outcome.assigned[step];
      const auto taken = shares[static_cast<std::size_t>(victim.value)].size(), others = kMicroBatches - taken;
      EXPECT_GE(taken, 2u);
      EXPECT_LE(taken, 4u);
      slow += static_cast<int>(taken);
      fast += static_cast<int>(others);
    }
  }
  printf("the slow one computed %d, the other %d\n", slow, fast);
  EXPECT_NEAR(static_cast<double>(slow) / (slow + fast), 0.25, 0.03);
}

// One so slow that it gets none in some steps: it takes part in the reduction all the same, and has the weights of every step.
TEST_F(Pull, AReplicaMayComputeNothingOfAStep) {
  int none = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    JobShape shape{.pipeline = seed % 4 == 3 ? 2 : 1, .tied = seed % 2 == 1, .replicas = 2, .zero = static_cast<int>(seed / 2 % 2)};
    auto overrides = shape.overrides(corpus_);
    for (const char* text : {"--training.global_batch=12", "--optimizer.lr=0.001"}) overrides.push_back(text);
    const std::string expected = folder(absl::StrCat("by-index-", seed)), output = folder(absl::StrCat("none-", seed));
    const Outcome by_index = run_job(small_config(corpus_, expected), overrides, kernels::cpu::table());
    shape.pulls = true;
    shape.parts = shape.pipeline;  // a process for each stage
    const Trial pulled = run_trial(seed, shape, corpus_, output, with_slow_rank(Rank(static_cast<std::int32_t>(seed / 4 % 2)), 60));
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
    ASSERT_EQ(pulled.broken, "");
    ASSERT_EQ(pulled.unfinished, "");
    ASSERT_TRUE(pulled.outcome.status.ok()) << pulled.outcome.status;
    ASSERT_EQ(fault_of(pulled.outcome, 2), "");
    expect_close(pulled.outcome, by_index);
    for (const auto& shares : pulled.outcome.assigned) none += shares[0].empty() || shares[1].empty() ? 1 : 0;
    shape.replay = metrics(output);
    const Trial replayed = run_trial(seed + 1'000, shape, corpus_, output + "-again");
    ASSERT_EQ(replayed.broken, "");
    ASSERT_EQ(replayed.outcome.losses, pulled.outcome.losses);
    ASSERT_EQ(replayed.outcome.norms, pulled.outcome.norms);
  }
  printf("%d steps without one of the replicas\n", none);
  EXPECT_GT(none, 4);
}

TEST_F(Pull, GivesTheLossesOfIndexOrderAndTheSameBitsWhenReplayed) {
  std::map<std::pair<int, bool>, Outcome> by_index;
  const std::uint64_t count = seeds(20, 8);
  int uneven = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    JobShape shape = JobShape::of_replicas(seed * 3);
    if (shape.pipeline == 2 && seed % 2 == 0) shape.parts = 2;  // a process for each stage
    shape.pulls = true;
    shape.zero %= 2;  // with more, gradients are reduced a micro-batch at a time
    if (shape.replicas == 4) {  // two machines: a rank that computes nothing of a step still has weights for its mate
      for (const int machine : {0, 0, 1, 1}) shape.node_of.insert(shape.node_of.end(), static_cast<std::size_t>(shape.parts), machine);
    }
    Outcome& expected = by_index[{shape.replicas, shape.tied}];
    if (expected.losses.empty()) {
      const JobShape still{.tied = shape.tied, .replicas = shape.replicas};
      auto overrides = still.overrides(corpus_);
      for (const char* text : {"--training.global_batch=12", "--optimizer.lr=0.001"}) overrides.push_back(text);
      const std::string output = folder(absl::StrCat("threads-", shape.replicas, shape.tied));
      expected = run_job(small_config(corpus_, output), overrides, kernels::cpu::table());
      ASSERT_TRUE(expected.status.ok()) << expected.status;
    }
    Draws draws(seed, 5);
    const auto kind = static_cast<FaultKind>(draws.below(static_cast<int>(FaultKind::kShortCut) + 1));
    const Fault fault = Fault::draw(kind, draws, shape.replicas, 3'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    TrialOptions options = with_slow_rank(Rank(static_cast<std::int32_t>(seed) % shape.replicas), 1 + static_cast<int>(seed) % 8);
    options.befall = [&](comm::SimNetwork& network) { fault.schedule(network); };
    const std::string output = folder(absl::StrCat("seed-", seed));
    const Trial pulled = run_trial(seed, shape, corpus_, output, options);
    ASSERT_EQ(pulled.broken, "");
    ASSERT_EQ(pulled.unfinished, "");
    for (const auto& end : pulled.ends) ASSERT_TRUE(end.status.ok() && end.left()) << end.status;
    ASSERT_THAT(pulled.outcome.steps, testing::ElementsAre(1, 2, 3));
    ASSERT_EQ(fault_of(pulled.outcome, shape.replicas), "");
    expect_close(pulled.outcome, expected);
    uneven += pulled.outcome.assigned.back()[0].size() * static_cast<std::size_t>(shape.replicas) != kMicroBatches ? 1 : 0;

    JobShape again = shape;
    again.replay = metrics(output);
    const Trial replayed = run_trial(seed + 1'000, again, corpus_, output + "-again");  // another order of events, and nobody is slow
    ASSERT_EQ(replayed.broken, "");
    ASSERT_EQ(replayed.unfinished, "");
    ASSERT_EQ(replayed.outcome.losses, pulled.outcome.losses);
    ASSERT_EQ(replayed.outcome.norms, pulled.outcome.norms);
    ASSERT_EQ(replayed.outcome.assigned, pulled.outcome.assigned);
    ASSERT_EQ(replayed.outcome.validation, pulled.outcome.validation);
  }
  printf("%d seeds, %d with uneven shares\n", static_cast<int>(count), uneven);
  EXPECT_GT(uneven, static_cast<int>(count) / 4);
}

// Whoever waits for a micro-batch, or for the others at the end of its share, hears of it; what was saved goes on.
TEST_F(Pull, ALostProcessEndsAll) {
  int failed = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const JobShape shape{.tied = seed % 2 == 1, .save = true, .replicas = seed % 4 == 3 ? 4 : 2, .zero = static_cast<int>(seed / 2 % 2), .pulls = true};
    Draws draws(seed, 6);
    const auto kind = seed % 3 == 0 ? FaultKind::kCut : FaultKind::kCrash;
    const Fault fault = Fault::draw(kind, draws, shape.replicas, 8'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    TrialOptions options = with_slow_rank(Rank(static_cast<std::int32_t>(seed) % shape.replicas), 8);
    options.befall = [&](comm::SimNetwork& network) { fault.schedule(network); };
    const std::string output = folder(absl::StrCat("lost-", seed));
    const Trial trial = run_trial(seed, shape, corpus_, output, options);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    ASSERT_EQ(trial.broken, "");
    ASSERT_THAT(trial.unfinished, testing::AllOf(testing::Not(testing::HasSubstr("has not ended")), testing::Not(testing::HasSubstr("open"))));
    failed += trial.outcome.status.ok() ? 0 : 1;
    const Trial on = run_trial(seed + 1'000, shape, corpus_, output);
    ASSERT_TRUE(on.outcome.status.ok()) << on.outcome.status;
    ASSERT_THAT(on.outcome.steps, testing::ElementsAre(1, 2, 3));
    ASSERT_EQ(fault_of(on.outcome, shape.replicas), "");
  }
  printf("in %d somebody failed\n", failed);
  EXPECT_GT(failed, 8);
}

}  // namespace
}  // namespace troupe::test
