// The whole training job under many orders of events: the numbers never change, nothing is lost, nothing overflows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/log.h"
#include "tests/sim/seeds.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

class Simulation : public testing::Test {
 protected:
  Simulation() { set_log_level(LogLevel::kWarning); }
  ~Simulation() override { set_log_level(LogLevel::kInfo); }

  std::string folder(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

// DESIGN laws 2, 4, 7 and 9.
TEST_F(Simulation, TrainsWithTheSameBitsUnderEveryOrderOfEvents) {
  const auto on_threads = [&](bool tied) {
    const JobShape shape{.pipeline = 2, .tied = tied, .evaluate = true, .save = true};
    const std::string output = folder(tied ? "threads-tied" : "threads");
    return run_job(small_config(corpus_, output), shape.overrides(corpus_), kernels::cpu::table());
  };
  const Outcome plain = on_threads(false), tied = on_threads(true);
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  ASSERT_TRUE(tied.status.ok()) << tied.status;
  ASSERT_NE(plain.losses, tied.losses);

  const std::uint64_t count = seeds(200, 24);  // 24: each shape of a job once
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const JobShape shape = JobShape::of(seed);
    const std::string output = folder(absl::StrCat("seed-", seed));
    const Trial trial = run_trial(seed, shape, corpus_, output);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", trial.events, " events"));
    ASSERT_GT(trial.events, 500);
    ASSERT_EQ(trial.broken, "");
    ASSERT_EQ(trial.unfinished, "");
    const auto& outcome = trial.outcome;
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    ASSERT_THAT(outcome.steps, testing::ElementsAre(1, 2, 3));  // each closed once, in order
    const Outcome& expected = shape.tied ? tied : plain;
    ASSERT_EQ(outcome.losses, expected.losses);
    ASSERT_EQ(outcome.norms, expected.norms);
    ASSERT_EQ(outcome.validation, shape.evaluate ? expected.validation : decltype(expected.validation)());
    std::filesystem::remove_all(output);
  }
}

TEST_F(Simulation, TheSameSeedIsTheSameOrder) {
  const JobShape shape{.pipeline = 4, .evaluate = true};
  const Trial one = run_trial(5, shape, corpus_, folder("one")), two = run_trial(5, shape, corpus_, folder("two"));
  EXPECT_EQ(one.order, two.order);
  EXPECT_EQ(one.events, two.events);
  EXPECT_NE(one.order, run_trial(6, shape, corpus_, folder("three")).order);
}

TEST_F(Simulation, ResumesWithTheSameBits) {
  const JobShape shape{.pipeline = 2, .tied = true, .save = true};
  const Trial whole = run_trial(1, shape, corpus_, folder("whole"));
  ASSERT_TRUE(whole.outcome.status.ok()) << whole.outcome.status;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const std::string output = folder(absl::StrCat("part-", seed));
    TrialOptions stop;
    bool stopped = false;
    stop.after_each_event = [&](actors::TrainingJob& job) {
      const auto ledger = job.system().probes().find("ledger");
      if (stopped || !ledger || ledger->handled_count() < 12) return;  // the first step is open
      job.request_stop("test");
      stopped = true;
    };
    ASSERT_TRUE(run_trial(seed, shape, corpus_, output, stop).outcome.status.ok());
    ASSERT_LT(read_metrics(output).losses.size(), 3u);
    const Trial resumed = run_trial(seed + 100, shape, corpus_, output);
    ASSERT_TRUE(resumed.outcome.status.ok()) << resumed.outcome.status << ", seed " << seed;
    EXPECT_EQ(resumed.outcome.losses, whole.outcome.losses) << "seed " << seed;
    EXPECT_EQ(resumed.outcome.norms, whole.outcome.norms) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::test
