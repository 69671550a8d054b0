// Killed by SIGKILL at random moments, half of them while a checkpoint is being written: the run that goes on afterwards is bitwise
// the one that nobody disturbed (CASES T01-T03, T13, T15, T22).
#include <gtest/gtest.h>

#include <csignal>

#include "models/checkpoint/directory.h"
#include "models/checkpoint/inspect.h"
#include "runtime/base/rng.h"
#include "tests/fault/run.h"

namespace troupe::test {
namespace {

constexpr int kSteps = 12;
const std::vector<std::string> kSettings{"--training.steps=12", "--training.global_batch=16", "--checkpoint.interval=2", "--device.threads=1",
                                         "--checkpoint.keep_latest_k=2", "--validation.interval=4", "--validation.steps=3"};

// Waits until `process` has written the line of step `step`, then for a share of a step's time. False if it ended before.
bool reach(ToolProcess& process, const std::string& output, int step, std::chrono::nanoseconds further) {
  const bool there = wait_until([&] { return static_cast<int>(steps_of(output).size()) >= step || !process.running(); });
  const auto end = std::chrono::steady_clock::now() + further;
  return there && wait_until([&] { return std::chrono::steady_clock::now() >= end || !process.running(); }) && process.running();
}

TEST(Kill, TheRunThatGoesOnIsBitwiseTheUndisturbedOne) {
  const TinyRun run;
  const Ended whole = run_tool(run.train("whole", kSettings), run.folder());
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto expected = steps_of(run.output("whole"));
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSteps));
  ASSERT_NE(expected.front().loss, expected.back().loss);

  const RandomStream random({.seed = 2024});
  std::uint64_t draw = 0;
  int during_save = 0, killed = 0, resumed = 0;
  // Ten at any moment, then until ten more have hit a save: a save may have ended before the signal comes.
  for (int trial = 0; trial < 60 && (killed < 20 || during_save < 10); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const std::string name = "trial-" + std::to_string(trial), output = run.output(name);
    const bool save = trial >= 10;
    // Moment: after step 0 (still starting up) .. 11; a save comes after steps 2, 4 ... 10.
    const int step = save ? static_cast<int>(2 + 2 * (random.at(draw++) % 5)) : static_cast<int>(random.at(draw++) % kSteps);
    const auto further = std::chrono::microseconds(random.at(draw++) % (save ? 1500 : 6000));
    {
      ToolProcess process(run.train(name, kSettings), run.folder());
      if (save) {
        // The save of this step may begin before its line is read, and end at any time: the first sight of it is what counts.
        (void)wait_until([&] { return static_cast<int>(steps_of(output).size()) >= step - 1 || !process.running(); });
        (void)wait_until([&] { return save_under_way(output) || !process.running(); });
        const auto end = std::chrono::steady_clock::now() + further;
        (void)wait_until([&] { return std::chrono::steady_clock::now() >= end; });
      } else {
        (void)reach(process, output, step, further);
      }
      process.signal(SIGKILL);
      killed += process.wait().killed();
    }
    during_save += save_under_way(output);
    // Whatever the moment: the newest complete checkpoint is whole.
    const auto newest = checkpoint::newest_complete(output);
    if (newest.ok()) {
      ++resumed;
      const Status whole_checkpoint = checkpoint::verify(newest->path);
      EXPECT_TRUE(whole_checkpoint.ok()) << std::string(whole_checkpoint.message());
    }
    const Ended again = run_tool(run.train(name, kSettings), run.folder());
    ASSERT_EQ(again.exit_code, 0) << "signal " << again.signal << ": " << again.err;
    EXPECT_EQ(steps_of(output), expected) << again.err;
    EXPECT_FALSE(save_under_way(output)) << "what the killed save left is still there";
    std::filesystem::remove_all(output);
  }
  std::printf("%d killed before their end, %d of them with a save under way, %d had a checkpoint to resume from\n", killed, during_save, resumed);
  EXPECT_GE(killed, 20);
  EXPECT_GE(during_save, 10);
  EXPECT_GE(resumed, 5);
}

TEST(Kill, ARunKilledAgainAndAgainComesToTheSameEnd) {
  const TinyRun run;
  const Ended whole = run_tool(run.train("whole", kSettings), run.folder());
  ASSERT_EQ(whole.exit_code, 0) << "signal " << whole.signal << ": " << whole.err;
  for (int step = 3; step < kSteps; step += 3) {
    ToolProcess process(run.train("again", kSettings), run.folder());
    ASSERT_TRUE(reach(process, run.output("again"), step, std::chrono::microseconds(500))) << process.err();
    process.signal(SIGKILL);
    EXPECT_TRUE(process.wait().killed());
  }
  const Ended last = run_tool(run.train("again", kSettings), run.folder());
  ASSERT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(steps_of(run.output("again")), steps_of(run.output("whole")));
}

// The negative: a run of another seed has other losses, so the comparison above can fail.
TEST(Kill, AnotherSeedIsAnotherRun) {
  const TinyRun run;
  ASSERT_EQ(run_tool(run.train("one", kSettings), run.folder()).exit_code, 0);
  auto other = run.train("other", kSettings);
  other.push_back("--job.seed=8");
  ASSERT_EQ(run_tool(other, run.folder()).exit_code, 0);
  EXPECT_NE(steps_of(run.output("one")), steps_of(run.output("other")));
}

}  // namespace
}  // namespace troupe::test
