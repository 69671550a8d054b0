#include "actors/train/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "kernels/ref/ref.h"
#include "runtime/actor/sim_world.h"
#include "tests/support/tiny_job.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::actors {
namespace {

TEST(MetricsLine, WritesEveryFieldAndFloatsSoThatTheyReadBack) {
  MetricsLine line{.report = {.step = StepId(12), .loss = 0.1f, .grad_norm = 1.5, .learning_rate = 3e-4, .step_ns = 2'000'000'000,
                              .data_wait_ns = 1'000'000, .checkpoint_wait_ns = 0, .sample_hash = 0xabc},
                   .tokens = 123456789012, .tokens_per_s = 4096, .mfu = 0.25};
  EXPECT_EQ(line.to_json(),
            R"({"step": 12, "loss": 0.100000001, "grad_norm": 1.5, "lr": 0.0003, "tokens": 123456789012, "tokens_per_s": 4096, )"
            R"("mfu": 0.25, "step_s": 2, "data_wait_s": 0.001, "checkpoint_wait_s": 0, "sample_hash": "0000000000000abc", "skipped": false})");
}

TEST(MetricsLine, HasNullForWhatIsNotFiniteAndTheValidationLossWhereMeasured) {
  MetricsLine line{.report = {.step = StepId(1), .loss = std::numeric_limits<double>::quiet_NaN(),
                              .grad_norm = std::numeric_limits<double>::infinity(), .skipped = true, .validation_loss = 2.5}};
  const std::string json = line.to_json();
  EXPECT_THAT(json, testing::HasSubstr(R"("loss": null, "grad_norm": null)"));
  EXPECT_THAT(json, testing::HasSubstr(R"("skipped": true, "val_loss": 2.5})"));
}

TEST(MetricsLine, HasTheMicroBatchesOfEachReplicaWhereTheyPull) {
  const MetricsLine line{.report = {.step = StepId(1), .assigned = {{0, 2, 3}, {}, {1}}}};
  EXPECT_THAT(line.to_json(), testing::HasSubstr(R"("skipped": false, "assigned": [[0, 2, 3], [], [1]]})"));
}

class CutMetrics : public testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string read() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::string line(int step) {
    return MetricsLine{.report = {.step = StepId(step), .loss = 1.0 / step}}.to_json() + "\n";
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/metrics.jsonl";
};

TEST_F(CutMetrics, KeepsTheLinesUpToTheStep) {
  write(line(1) + line(2) + line(3) + line(4));
  ASSERT_TRUE(cut_metrics(path_, StepId(2)).ok());
  EXPECT_EQ(read(), line(1) + line(2));
  ASSERT_TRUE(cut_metrics(path_, StepId(9)).ok());
  EXPECT_EQ(read(), line(1) + line(2));
  ASSERT_TRUE(cut_metrics(path_, StepId(0)).ok());
  EXPECT_EQ(read(), "");
}

TEST_F(CutMetrics, DropsALastLineThatAKillCutShort) {
  write(line(1) + line(2) + line(3).substr(0, 20));
  ASSERT_TRUE(cut_metrics(path_, StepId(3)).ok());
  EXPECT_EQ(read(), line(1) + line(2));
  write(line(1) + line(2).substr(0, line(2).size() - 1));  // all but the end of the line
  ASSERT_TRUE(cut_metrics(path_, StepId(2)).ok());
  EXPECT_EQ(read(), line(1));
}

TEST_F(CutMetrics, IsContentWithoutAFile) {
  EXPECT_TRUE(cut_metrics(path_, StepId(3)).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// A console that nobody reads: the lines are in the file, the run goes on, and what waits does not grow for ever.
TEST(Reporter, ATerminalThatTakesNothingHoldsNothingUp) {
  const test::TemporaryFolder folder;
  const auto job = plan::parse_job_config(test::tiny_config("corpus", "run"), "test.toml", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto plan = plan::make_plan(*job, {.threads = 1}, kernels::ref::table());
  ASSERT_TRUE(plan.ok()) << plan.status();
  actor::SimWorld world(7);
  device::SimStream terminal("terminal", world.clock());  // never runs
  auto& ledger = world.system().add<test::Inbox<StepWritten>>("ledger");
  auto& reporter = world.system().add<actors::Reporter>(
      "reporter", actors::Reporter::Setup{.plan = *plan, .metrics_path = folder.path() + "/metrics.jsonl", .metrics = world.add_stream("metrics"),
                                          .terminal = terminal, .steps = 1000});
  reporter.connect_to(ledger.self());
  world.start();
  for (int step = 1; step <= 300; ++step) {
    reporter.self().send(StepClosed{{.step = StepId(step)}});
    (void)world.run();
    ASSERT_EQ(ledger.last<StepWritten>().step, StepId(step));
  }
  EXPECT_EQ(ledger.count<StepWritten>(), 300u);
  EXPECT_EQ(test::read_metrics(folder.path()).steps.size(), 300u);
  EXPECT_EQ(terminal.pending(), 256u);
}

}  // namespace
}  // namespace troupe::actors
