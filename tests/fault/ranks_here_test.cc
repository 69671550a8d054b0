// Several ranks in one process are told apart as between processes (CASES A21, T25).
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <regex>

#include "tests/fault/run.h"

namespace troupe::test {
namespace {

std::vector<std::string> two_ranks(int global_batch) {
  return {"--parallelism.data_parallel=2", "--device.threads=1", "--training.steps=3", "--training.global_batch=" + std::to_string(global_batch)};
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

// One thread of a child stands still.
class StoppedThread {
 public:
  explicit StoppedThread(pid_t thread) : thread_(thread) {
    stands_ = ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0 && ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 &&
              waitpid(thread_, nullptr, __WALL) == thread_;
  }
  ~StoppedThread() {
    if (stands_) ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  bool stands() const { return stands_; }

 private:
  const pid_t thread_;
  bool stands_;
};

// Of one of its ranks.
pid_t compute_thread_of(pid_t process) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    if (read_text(task.path().string() + "/comm") == "compute\n") return static_cast<pid_t>(std::stol(task.path().filename().string()));
  }
  return -1;
}

TEST(RanksHere, TheOneThatIsWaitedForIsNamedWithWhatWaits) {
  const TinyRun run;
  ToolProcess process(run.train("job", two_ranks(4'000)), run.folder());
  ASSERT_TRUE(is_in_its_first_step(process)) << process.err();
  const pid_t thread = compute_thread_of(process.pid());
  ASSERT_GT(thread, 0);
  {
    const StoppedThread stopped(thread);
    if (!stopped.stands()) GTEST_SKIP() << "skipped because a thread of a child cannot be stopped here";
    // The other one comes to the end of its share of the step, and to the sum over both.
    const std::regex report("\\[0\\] nothing has gone on for 1[0-9] s: [^\n]* waits for rank 1\n|\\[1\\] nothing has gone on for 1[0-9] s: [^\n]* waits for rank 0\n");
    EXPECT_TRUE(wait_until([&] { return std::regex_search(process.err(), report) || !process.running(); })) << process.err();
  }
  EXPECT_EQ(process.wait().exit_code, 0) << process.err();
}

}  // namespace
}  // namespace troupe::test
