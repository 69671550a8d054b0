// Several ranks in one process are told apart as between processes (CASES A21, T25).
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <regex>
#include <thread>

#include "tests/fault/run.h"
#include "tests/tool/stopped_thread.h"

namespace troupe::test {
namespace {

std::vector<std::string> two_ranks(int global_batch) {
  return {"--parallelism.data_parallel=2", "--device.threads=1", "--training.steps=1", "--training.global_batch=" + std::to_string(global_batch)};
}
constexpr int kStepWithoutEnd = 400'000;

TEST(RanksHere, ASignalListsWhatEveryActorOfEachDoes) {
  const TinyRun run;
  ToolProcess process(run.train("job", two_ranks(kStepWithoutEnd)), run.folder());
  ASSERT_TRUE(is_in_its_first_step(process)) << process.err();
  for (const std::string rank : {"0", "1"}) {
    for (const std::string actor : {"device", "stage-0", "shard-0", "replica", "source"}) {
      EXPECT_TRUE(wait_until([&] { return process.err().find("\n[" + rank + "] " + actor + " ") != std::string::npos || !process.running(); }))
          << rank << " " << actor << "\n" << process.err();
    }
  }
  EXPECT_EQ(process.err().find("\n[1] ledger "), std::string::npos);
  EXPECT_TRUE(process.running());
}

TEST(RanksHere, TheStateFileSaysWhatEachDid) {
  const TinyRun run;
  const std::string state = run.folder() + "/state";
  ASSERT_EQ(setenv("TROUPE_STATE_FILE", state.c_str(), 1), 0);
  ToolProcess process(run.train("job", two_ranks(kStepWithoutEnd)), run.folder());
  ASSERT_EQ(unsetenv("TROUPE_STATE_FILE"), 0);
  const auto says = [&](const std::string& line) { return ("\n" + read_text(state)).find("\n" + line) != std::string::npos; };
  EXPECT_TRUE(wait_until([&] { return (says("[0] device: ") && says("[1] device: ")) || !process.running(); })) << read_text(state);
  ASSERT_TRUE(process.running()) << process.err();
}

TEST(RanksHere, TheOneThatIsWaitedForIsNamedWithWhatWaits) {
  const TinyRun run;
  auto settings = two_ranks(8'000);
  settings.push_back("--job.stall_min_s=3");
  ToolProcess process(run.train("job", settings), run.folder());
  ASSERT_TRUE(is_in_its_first_step(process)) << process.err();
  const pid_t thread = thread_called(process.pid(), "compute");
  ASSERT_GT(thread, 0);
  // Stopped with the heap's lock it holds up the actors of both, stopped between two steps nobody waits for it in a sum: then it runs on
  // for a while, and once more.
  for (int tries_left = 4;; --tries_left) {
    if (tries_left < 4) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const StoppedThread stopped(thread);
    if (!stopped.stands()) GTEST_SKIP() << "skipped because a thread of a child cannot be stopped here";
    // The other one comes to the end of its share of the step, and to the sum over both.
    const std::regex cause("step [0-9]+ is not closed after [0-9]+[^\n]*: rank [01] device: running");
    const std::regex missing("\ncollective [^\n]*: not entered by rank [01]; rank [01] waits");
    const auto says = [&](const std::regex& what) { return std::regex_search(process.err(), what); };
    const auto is_said = [&] { return (says(cause) && says(missing)) || !process.running(); };
    if (wait_until(is_said, std::chrono::seconds(tries_left > 0 ? 12 : 60)) || tries_left == 0) {
      EXPECT_TRUE(is_said()) << process.err();
      break;
    }
  }
  EXPECT_EQ(process.wait().exit_code, 0) << process.err();
}

}  // namespace
}  // namespace troupe::test
