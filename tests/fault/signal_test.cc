// SIGTERM, SIGINT and SIGHUP end a run in order; two end it at once; a folder serves one run at a time (CASES T32).
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "models/checkpoint/directory.h"
#include "tests/fault/run.h"

namespace troupe::test {
namespace {

const std::vector<std::string> kSignalSettings{"--training.steps=12", "--training.global_batch=64", "--checkpoint.interval=0",
                                         "--device.threads=1"};

class Signal : public testing::TestWithParam<int> {};

TEST_P(Signal, FinishesTheStepSavesAndGoesOnBitwise) {
  const TinyRun run;
  const Ended whole = run_tool(run.train("whole", kSignalSettings), run.folder());
  ASSERT_EQ(whole.exit_code, 0) << "signal " << whole.signal << ": " << whole.err;
  const std::string output = run.output("stopped");
  int stopped_at = 0;
  {
    ToolProcess process(run.train("stopped", kSignalSettings), run.folder());
    ASSERT_TRUE(wait_until([&] { return steps_of(output).size() >= 3 || !process.running(); }));
    process.signal(GetParam());
    const Ended& ended = process.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    stopped_at = static_cast<int>(steps_of(output).size());
    EXPECT_LT(stopped_at, 12) << "the run was not stopped";
    EXPECT_NE(ended.err.find("the run ends after step " + std::to_string(stopped_at)), std::string::npos) << ended.err;
  }
  // Saved after exactly the steps that were done.
  const auto newest = checkpoint::newest_complete(output);
  ASSERT_TRUE(newest.ok()) << std::string(newest.status().message());
  EXPECT_EQ(newest->step.value, stopped_at);
  const Ended again = run_tool(run.train("stopped", kSignalSettings), run.folder());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(steps_of(output), steps_of(run.output("whole")));
}

TEST_P(Signal, TheSecondStopsAtOnce) {
  const TinyRun run;
  // A step of many micro-batches, so that it would go on for long.
  ToolProcess process(run.train("long", {"--training.steps=2", "--training.global_batch=400000"}), run.folder());
  ASSERT_TRUE(is_in_its_first_step(process)) << process.err();
  const auto began = std::chrono::steady_clock::now();
  process.signal(GetParam());
  ASSERT_TRUE(wait_until([&] { return process.err().find("the run ends after step 1") != std::string::npos || !process.running(); }));
  ASSERT_TRUE(process.running()) << process.err();
  ASSERT_TRUE(wait_until([&] {
    process.signal(GetParam());
    return !process.running();
  }, std::chrono::seconds(20)));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::seconds(1)) << "so soon it is the same request";
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 128 + GetParam()) << ended.err;
  EXPECT_TRUE(steps_of(run.output("long")).empty());
}

// A stop that comes while the run is still being built is no crash: no step is begun, or one is finished, and all is said.
TEST_P(Signal, AStopDuringTheStartIsKept) {
  const TinyRun run;
  ToolProcess process(run.train("early", kSignalSettings), run.folder());
  ASSERT_TRUE(wait_until([&] { return process.err().find("parameters") != std::string::npos || !process.running(); }));
  process.signal(GetParam());
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << "signal " << ended.signal << ": " << ended.err;
  EXPECT_NE(ended.err.find("the run ends after step"), std::string::npos) << ended.err;
  EXPECT_LT(steps_of(run.output("early")).size(), 12u);
}

std::string signal_name(const testing::TestParamInfo<int>& tried) { return sigabbrev_np(tried.param); }

INSTANTIATE_TEST_SUITE_P(Each, Signal, testing::Values(SIGTERM, SIGINT, SIGHUP), signal_name);

// By nohup: the terminal's end is none of this run's.
TEST(SignalHup, IsLeftAloneWhereItWasIgnored) {
  const TinyRun run;
  const auto before = std::signal(SIGHUP, SIG_IGN);
  ToolProcess process(run.train("long", {"--training.steps=100000", "--lr_scheduler.total_steps=100000"}), run.folder());
  std::signal(SIGHUP, before);
  const auto steps = [&] { return steps_of(run.output("long")).size(); };
  ASSERT_TRUE(wait_until([&] { return steps() >= 1 || !process.running(); }));
  process.signal(SIGHUP);
  const auto then = steps();
  ASSERT_TRUE(wait_until([&] { return steps() >= then + 3 || !process.running(); }));
  process.signal(SIGTERM);
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.err.find("signal SIGTERM"), std::string::npos) << ended.err;
}

// Slurm's --signal=USR1@60, or USR2, and then SIGTERM at the end of the time: the first asks for a checkpoint, the other is still heard.
class SignalUser : public testing::TestWithParam<int> {};

TEST_P(SignalUser, AsksForAStopWithACheckpointAndLeavesTheOthersHeard) {
  const TinyRun run;
  ToolProcess process(run.train("long", {"--training.steps=2", "--training.global_batch=400000"}), run.folder());
  ASSERT_TRUE(is_in_its_first_step(process)) << process.err();
  process.signal(GetParam());
  ASSERT_TRUE(wait_until([&] { return process.err().find("the run ends after step 1") != std::string::npos || !process.running(); }, std::chrono::seconds(10)));
  process.signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return !is_pending(process.pid(), SIGTERM); }, std::chrono::seconds(10))) << "SIGTERM is blocked for ever";
  ASSERT_TRUE(process.running());
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(std::chrono::seconds(20)).exit_code, 128 + SIGINT);
}

TEST_P(SignalUser, SavesAsSigtermDoes) {
  const TinyRun run;
  const std::string output = run.output("stopped");
  ToolProcess process(run.train("stopped", kSignalSettings), run.folder());
  ASSERT_TRUE(wait_until([&] { return steps_of(output).size() >= 3 || !process.running(); }));
  process.signal(GetParam());
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const auto newest = checkpoint::newest_complete(output);
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->step.value, static_cast<std::int64_t>(steps_of(output).size()));
  EXPECT_LT(steps_of(output).size(), 12u);
}

INSTANTIATE_TEST_SUITE_P(Each, SignalUser, testing::Values(SIGUSR1, SIGUSR2), signal_name);

TEST(Folder, ASecondRunInItIsRefusedAndNamesTheFirst) {
  const TinyRun run;
  const std::vector<std::string> settings{"--training.steps=2", "--training.global_batch=400000"};
  ToolProcess first(run.train("shared", settings), run.folder());
  ASSERT_TRUE(wait_until([&] { return first.err().find("parameters") != std::string::npos || !first.running(); }));
  const auto before = contents_of(run.output("shared"));
  const Ended second = run_tool(run.train("shared", settings), run.folder());
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_NE(second.err.find("in use by pid " + std::to_string(first.pid())), std::string::npos) << second.err;
  EXPECT_EQ(contents_of(run.output("shared")), before);
  EXPECT_TRUE(first.running());
  first.signal(SIGKILL);
  first.wait();
  // Nobody holds it any more: the lock of a dead process is none.
  const Ended third = run_tool(run.train("shared", {"--training.steps=1"}), run.folder());
  EXPECT_EQ(third.exit_code, 0) << third.err;
}

}  // namespace
}  // namespace troupe::test
