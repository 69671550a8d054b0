// CASES T30, with the real stages: whatever the number of stages, of processes they are in and of micro-batches, each step ends, within its
// bounds, with the bits of one stage. tests/unit/actors/schedule_test.cc goes through every order of events, by a simulator of the stages' rule.
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

class Schedules : public testing::Test {
 protected:
  Schedules() { set_log_level(LogLevel::kWarning); }
  ~Schedules() override { set_log_level(LogLevel::kInfo); }
  std::string folder(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

TEST_F(Schedules, EveryNumberOfStagesAndMicroBatchesEndsWithTheBitsOfOneStage) {
  const auto orders = seeds(2, 1);
  int trials = 0;
  for (int micro_batches = 1; micro_batches <= 6; ++micro_batches) {
    const JobShape one{.micro_batches = micro_batches};
    const Outcome expected = run_job(small_config(corpus_, folder(absl::StrCat("one-", micro_batches))), one.overrides(corpus_), kernels::cpu::table());
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    for (int stages = 2; stages <= 4; ++stages) {
      for (const int processes : {1, stages}) {
        for (const bool gpipe : {false, true}) {
          for (std::uint64_t seed = 0; seed < orders; ++seed, ++trials) {
            const JobShape shape{.pipeline = stages, .evaluate = processes > 1 && seed == 1, .parts = processes, .micro_batches = micro_batches, .gpipe = gpipe};
            SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
            const std::string output = folder(absl::StrCat("trial-", trials));
            const Trial trial = run_trial(seed * 100 + static_cast<std::uint64_t>(trials), shape, corpus_, output);
            ASSERT_EQ(trial.broken, "");
            ASSERT_EQ(trial.unfinished, "");
            ASSERT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
            ASSERT_THAT(trial.outcome.steps, testing::ElementsAre(1, 2, 3));
            ASSERT_EQ(trial.outcome.losses, expected.losses);
            ASSERT_EQ(trial.outcome.norms, expected.norms);
            std::filesystem::remove_all(output);
          }
        }
      }
    }
  }
  EXPECT_EQ(trials, static_cast<int>(6 * 3 * 2 * 2 * orders));
}

}  // namespace
}  // namespace troupe::test
