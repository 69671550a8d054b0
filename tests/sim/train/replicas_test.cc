// A job of several replicas, all of its processes in one deterministic world over the simulated network: the numbers never change,
// whatever the order of events and however slow a process or a link is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/log.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

class Replicas : public testing::Test {
 protected:
  Replicas() { set_log_level(LogLevel::kWarning); }
  ~Replicas() override { set_log_level(LogLevel::kInfo); }

  std::string folder(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

// DESIGN laws 4, 6, 7 and 9.
TEST_F(Replicas, TrainWithTheSameBitsWhateverIsSlow) {
  // by replicas, tied, split gradients; else ZeRO, stages, prefetch, evaluation and saves change no bit
  std::map<std::tuple<int, bool, bool>, Outcome> on_threads;
  for (const int replicas : {2, 4}) {
    for (const bool tied : {false, true}) {
      for (const int zero : {0, 2}) {
        const JobShape shape{.tied = tied, .evaluate = true, .replicas = replicas, .zero = zero};
        const std::string output = folder(absl::StrCat("threads-", replicas, tied, zero));
        Outcome& outcome = on_threads[{replicas, tied, zero == 2}];
        outcome = run_job(small_config(corpus_, output), shape.overrides(corpus_), kernels::cpu::table());
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      }
    }
  }
  const std::uint64_t count = seeds(400, 40);
  std::int64_t events = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const JobShape shape = JobShape::of_replicas(seed);
    Draws draws(seed, 5);
    const auto kind = static_cast<FaultKind>(draws.below(static_cast<int>(FaultKind::kShortCut) + 1));
    const Fault fault = Fault::draw(kind, draws, shape.replicas, 3'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    const std::string output = folder(absl::StrCat("seed-", seed));
    const Trial trial = run_trial(seed, shape, corpus_, output, {.befall = [&](comm::SimNetwork& network) { fault.schedule(network); }});
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    events += trial.events;
    ASSERT_EQ(trial.broken, "");
    ASSERT_EQ(trial.unfinished, "");
    ASSERT_THAT(trial.lost_frames, testing::IsEmpty());
    for (const auto& end : trial.ends) ASSERT_TRUE(end.status.ok() && end.left()) << end.status;
    const auto& outcome = trial.outcome;
    ASSERT_THAT(outcome.steps, testing::ElementsAre(1, 2, 3));  // each closed once, in order
    const Outcome& expected = on_threads[{shape.replicas, shape.tied, shape.zero >= 2}];
    ASSERT_EQ(outcome.losses, expected.losses);
    ASSERT_EQ(outcome.norms, expected.norms);
    ASSERT_EQ(outcome.sample_hashes, expected.sample_hashes);
    ASSERT_EQ(outcome.validation, shape.evaluate ? expected.validation : decltype(expected.validation)());
    std::filesystem::remove_all(output);
  }
  printf("%d seeds, %d events\n", static_cast<int>(count), static_cast<int>(events));
}

// In virtual time: what an evaluation adds to a run halves from two replicas to four.
TEST_F(Replicas, ShareAnEvaluation) {
  const auto ended_ns = [&](int replicas, int validation_steps) {
    const JobShape shape{.evaluate = validation_steps > 0, .replicas = replicas, .validation_steps = validation_steps};
    const Trial trial = run_trial(5, shape, corpus_, folder(absl::StrCat("share-", replicas, "-", validation_steps)));
    EXPECT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
    return static_cast<double>(trial.ended_ns);
  };
  // What so many more batches take: some are computed while the replicas wait for each other anyway.
  const double two = ended_ns(2, 256) - ended_ns(2, 128), four = ended_ns(4, 256) - ended_ns(4, 128);
  printf("of two replicas %.0f us, of four %.0f us\n", two / 1e3, four / 1e3);
  EXPECT_NEAR(four / two, 0.5, 0.15);
}

// Rank 0 is asked to stop while its first step is open.
TrialOptions stopped_early() {
  TrialOptions options;
  options.after_each_event = [stopped = false](actors::TrainingJob& job) mutable {
    const auto ledger = job.system().probes().find("ledger");
    if (stopped || ledger->handled_count() < 9) return;
    job.request_stop("test");
    stopped = true;
  };
  return options;
}

// Two groups that repeat each other, each split over two: the same bits whatever is slow, and after a resume.
TEST_F(Replicas, HybridShardingTrainsWithTheSameBitsWhateverIsSlow) {
  for (const int zero : {1, 2, 3}) {
    const JobShape shape{.tied = zero != 2, .evaluate = true, .save = true, .replicas = 4, .zero = zero, .shard_group = 2};
    const std::string output = folder(absl::StrCat("hybrid-", zero));
    const auto expected = run_job(small_config(corpus_, output), shape.overrides(corpus_), kernels::cpu::table());
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    for (std::uint64_t seed = 0; seed < seeds(12, 4); ++seed) {
      const std::string part = folder(absl::StrCat("hybrid-", zero, "-", seed));
      const Trial stopped = run_trial(seed, shape, corpus_, part, stopped_early());
      SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
      ASSERT_EQ(stopped.broken, "");
      ASSERT_TRUE(stopped.outcome.status.ok()) << stopped.outcome.status;
      const Trial trial = run_trial(seed + 50, shape, corpus_, part);
      ASSERT_EQ(trial.broken, "");
      ASSERT_EQ(trial.unfinished, "");
      ASSERT_EQ(trial.outcome.losses, expected.losses);
      ASSERT_EQ(trial.outcome.norms, expected.norms);
      std::filesystem::remove_all(part);
    }
  }
}

// Weights go from machine to machine once for all of its ranks. Who sums first does change bits, but not how weights are pulled: the ones expected
// are those of ZeRO-0 on the same machines, which pulls nothing. (A step is one micro-batch a replica: then every ZeRO stage has them.)
TEST_F(Replicas, PullWeightsOncePerMachineWithTheSameBitsWhateverIsSlow) {
  const std::vector<std::vector<int>> machines{{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 1, 1, 2}};
  const std::uint64_t count = seeds(72, 24);
  std::map<std::pair<std::size_t, bool>, Outcome> expected;
  double pulled = 0, between = 0;  // ZeRO-3's, two machines of two
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const std::size_t at = seed / 3 % machines.size();
    const bool tied = seed % 2 == 1;
    JobShape shape{.pipeline = seed / 12 % 2 == 1 ? 2 : 1, .tied = tied, .evaluate = true, .replicas = 4, .zero = static_cast<int>(1 + seed % 3),
                   .prefetch = seed / 6 % 2 == 1 ? 0 : 1, .parts = seed / 12 % 4 == 3 ? 2 : 1};
    for (const int machine : machines[at]) shape.node_of.insert(shape.node_of.end(), static_cast<std::size_t>(shape.parts), machine);
    auto& right = expected[{at, tied}];
    if (right.losses.empty()) {
      const JobShape whole{.tied = tied, .evaluate = true, .replicas = 4, .node_of = machines[at]};
      right = run_trial(seed, whole, corpus_, folder(absl::StrCat("machines-", at, tied))).outcome;
      ASSERT_TRUE(right.status.ok()) << right.status;
    }
    Draws draws(seed, 8);
    const auto kind = static_cast<FaultKind>(draws.below(static_cast<int>(FaultKind::kShortCut) + 1));
    const Fault fault = Fault::draw(kind, draws, shape.world(), 3'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    const std::string output = folder(absl::StrCat("by-machine-", seed));
    const Trial trial = run_trial(seed, shape, corpus_, output, {.befall = [&](comm::SimNetwork& network) { fault.schedule(network); }});
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    ASSERT_EQ(trial.broken, "");
    ASSERT_EQ(trial.unfinished, "");
    for (const auto& end : trial.ends) ASSERT_TRUE(end.status.ok() && end.left()) << end.status;
    ASSERT_EQ(trial.outcome.losses, right.losses);
    ASSERT_EQ(trial.outcome.norms, right.norms);
    ASSERT_EQ(trial.outcome.validation, right.validation);
    if (at < 2 && shape.zero < 3) {
      // Of the three others who need a part one has its owner's machine, and one of two takes it from the other: a third. More where the job ends
      // before the mate has had the last step's; flat it is two thirds.
      ASSERT_LE(static_cast<double>(trial.pulled_between_nodes_bytes), 0.4 * static_cast<double>(trial.pulled_bytes));
    } else if (at < 2) {
      pulled += static_cast<double>(trial.pulled_bytes);
      between += static_cast<double>(trial.pulled_between_nodes_bytes);
    }
    std::filesystem::remove_all(output);
  }
  printf("%d seeds; ZeRO-3 on two machines of two: %.3f of the weights go between them, flat it is half\n", static_cast<int>(count), between / pulled);
  EXPECT_LT(between / pulled, 0.33);  // a quarter, and what came too late for a mate's room
}

TEST_F(Replicas, TheSameSeedIsTheSameOrder) {
  const JobShape shape{.pipeline = 2, .evaluate = true, .save = true, .replicas = 4, .zero = 1};
  const Trial one = run_trial(5, shape, corpus_, folder("one")), two = run_trial(5, shape, corpus_, folder("two"));
  EXPECT_EQ(one.order, two.order);
  EXPECT_EQ(one.events, two.events);
  EXPECT_EQ(one.ended_ns, two.ended_ns);
  EXPECT_NE(one.order, run_trial(6, shape, corpus_, folder("three")).order);
}

TEST_F(Replicas, AStopAtRankZeroEndsAllAfterTheOpenStep) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const JobShape shape = JobShape::of_replicas(seed * 5);
    const Trial trial = run_trial(seed, shape, corpus_, folder(absl::StrCat("stop-", seed)), stopped_early());
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
    EXPECT_EQ(trial.broken, "");
    EXPECT_THAT(trial.unfinished, testing::Not(testing::HasSubstr("has not ended")));
    for (const auto& end : trial.ends) EXPECT_TRUE(end.status.ok() && end.left()) << end.status;
    EXPECT_LT(trial.outcome.steps.size(), 3u);
  }
}

// A tied model's last block is one chunk of the norm: with ZeRO one replica holds all of it.
TEST_F(Replicas, ResumeWithTheSameBits) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {  // 2 and 4 replicas, every ZeRO stage, tied or not
    const JobShape shape = JobShape::of_replicas(seed + 64);
    ASSERT_TRUE(shape.save);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
    const Trial whole = run_trial(seed, shape, corpus_, folder(absl::StrCat("whole-", seed)));
    const std::string output = folder(absl::StrCat("part-", seed));
    const Trial part = run_trial(seed, shape, corpus_, output, stopped_early());
    ASSERT_TRUE(part.outcome.status.ok()) << part.outcome.status;
    ASSERT_LT(part.outcome.steps.size(), 3u);
    const Trial resumed = run_trial(seed + 100, shape, corpus_, output);
    EXPECT_EQ(resumed.outcome.losses, whole.outcome.losses);
    EXPECT_EQ(resumed.outcome.norms, whole.outcome.norms);
  }
}

}  // namespace
}  // namespace troupe::test
