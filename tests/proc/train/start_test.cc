// Before the training has begun. A rank that does not come is named; a signal ends a process at once, nothing is left of it, and the others
// hear why.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "comm/join/socket.h"
#include "comm/join/store_server.h"
#include "tests/proc/train/cluster.h"
#include "tests/proc/train/ports.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;
constexpr std::chrono::seconds kAtOnce{5};  // a rank waits two minutes for the others

// Of this process, so that what it starts has them.
class Variables {
 public:
  using Named = std::vector<std::pair<std::string, std::string>>;
  explicit Variables(Named named) : named_(std::move(named)) {
    for (const auto& [name, value] : named_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : named_) unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  Named named_;
};

std::string early(int signal) { return std::string("SIG") + sigabbrev_np(signal) + " came before the training began"; }

class Start : public testing::Test {
 protected:
  // A rank, started by somebody else than our launcher: `prefix` RANK and so on, and more variables.
  std::unique_ptr<ToolProcess> rank(int number, int world, const std::string& prefix, Variables::Named more, const std::vector<std::string>& settings = {}) const {
    const std::string here = std::to_string(number), all = std::to_string(world);
    more.insert(more.end(), {{prefix + "RANK", here}, {prefix + "WORLD_SIZE", all}, {prefix + "LOCAL_RANK", here}, {prefix + "LOCAL_WORLD_SIZE", all},
                             {"UCX_POSIX_DIR", shared()}});
    const Variables variables(more);
    auto words = run_.train("job", {"--parallelism.data_parallel=" + all, "--device.threads=1"});
    words.insert(words.end(), settings.begin(), settings.end());
    return std::make_unique<ToolProcess>(words, run_.folder());
  }
  std::unique_ptr<ToolProcess> by_torchrun(int number, int port, const std::vector<std::string>& settings = {}) const {
    return rank(number, 2, "", {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}, {"TROUPE_STORE", "127.0.0.1:" + std::to_string(port)}}, settings);
  }
  std::string shared() const {
    std::filesystem::create_directories(run_.folder() + "/shm");
    return run_.folder() + "/shm";
  }
  static int free_port() {
    const auto listener = comm::listen_at(0, true);
    const int port = comm::port_of(*listener);
    close(*listener);
    return port;
  }

  const TinyRun run_;
};

TEST_F(Start, ARankThatDoesNotComeIsNamedWhenTheTimeIsOver) {
  const std::vector<std::string> soon{"--job.join_timeout_s=2", "--job.heartbeat_timeout_s=1"};
  for (const int there : {0, 1}) {
    const auto process = by_torchrun(there, free_port(), soon);
    const Ended& ended = process->wait(kAtOnce + std::chrono::seconds(2));
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.err, HasSubstr(there == 0 ? "waited for the address of rank 1 of 2" : "rank 1 cannot reach the store"));
    EXPECT_THAT(ended.err, HasSubstr("job.join_timeout_s = 2"));
    EXPECT_FALSE(std::filesystem::exists(run_.output("job")));
  }
}

// The first whose time is over says so to the others, who came a little later.
TEST_F(Start, AllRanksOfALaunchedJobNameTheOneThatDoesNotCome) {
  std::string command = "if [ $RANK = 1 ]; then exec sleep 100; fi; exec";
  const auto words = launched(run_, 3, "job", {"--job.join_timeout_s=2", "--job.heartbeat_timeout_s=1", "--training.global_batch=3"});
  for (std::size_t i = 4; i < words.size(); ++i) command += " '" + words[i] + "'";
  const Ended ended = run_tool({"launch", "--nproc", "3", "--", "sh", "-c", command}, run_.folder());
  EXPECT_EQ(ended.exit_code, 1) << ended.err;
  for (const char* rank : {"0", "2"}) EXPECT_THAT(ended.err, testing::ContainsRegex(std::string("\\[") + rank + "\\] troupe: .*waited for the address of rank 1 of 3"));
}

class StartSignal : public Start, public testing::WithParamInterface<int> {
 protected:
  void expect_ended(ToolProcess& process) const {
    const Ended& ended = process.wait(kAtOnce);
    EXPECT_EQ(ended.exit_code, 128 + GetParam()) << "signal " << ended.signal << ": " << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("troupe: ended: " + early(GetParam()) + "\n"));
    EXPECT_TRUE(std::filesystem::is_empty(shared())) << "shared memory is left";
    EXPECT_FALSE(std::filesystem::exists(run_.output("job"))) << "it has begun";
  }
};

TEST_P(StartSignal, TheOthersHearWhyARankThatHadJoinedHasEnded) {
  const auto store = *comm::StoreServer::start({.secret = "s", .world = 4});  // two never come
  std::vector<std::unique_ptr<ToolProcess>> ranks;
  for (const int number : {0, 1}) {
    ranks.push_back(rank(number, 4, "TROUPE_", {{"TROUPE_SECRET", "s"}, {"TROUPE_STORE", "127.0.0.1:" + std::to_string(store->port())}}));
  }
  ASSERT_TRUE(wait_until([&] { return store->meeting().waiting.size() == 2 || !ranks[0]->running() || !ranks[1]->running(); }));
  ASSERT_TRUE(ranks[0]->running() && ranks[1]->running()) << ranks[0]->err() << ranks[1]->err();
  ranks[1]->signal(GetParam());
  const std::string said = "rank 1 ended the job: " + early(GetParam());
  const Ended& other = ranks[0]->wait(kAtOnce);
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr(said));
  expect_ended(*ranks[1]);
  ASSERT_TRUE(store->cause());
  EXPECT_EQ(store->cause()->rank, Rank{1});
  EXPECT_EQ(store->cause()->reason, said);
}

TEST_P(StartSignal, RankZeroEndsWithItsStore) {
  const int port = free_port();
  const auto zero = by_torchrun(0, port);
  ASSERT_TRUE(wait_until([&] {
    const auto all = listeners_of(zero->pid());
    return std::ranges::any_of(all, [&](const auto& at) { return ntohs(at.sin_port) == port; }) || !zero->running();
  }));
  zero->signal(GetParam());
  expect_ended(*zero);
  const auto again = comm::listen_at(port, true);
  ASSERT_TRUE(again.ok()) << "somebody is left";
  close(*again);
}

TEST_P(StartSignal, ARankThatFindsNoStoreEnds) {
  const auto one = by_torchrun(1, free_port());
  ASSERT_TRUE(wait_until([&] { return is_blocked(one->pid(), GetParam()) || !one->running(); }));
  one->signal(GetParam());
  expect_ended(*one);
}

INSTANTIATE_TEST_SUITE_P(Each, StartSignal, testing::Values(SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2),
                         [](const auto& tried) { return std::string(sigabbrev_np(tried.param)); });

TEST(StartSignals, OneToTheLauncherEndsAllWhereARankNeverJoins) {
  const TinyRun run;
  std::string command = "if [ $RANK = 1 ]; then exec sleep 100; fi; exec";
  const auto words = launched(run, 2, "job");
  for (std::size_t i = 4; i < words.size(); ++i) command += " '" + words[i] + "'";
  ToolProcess job({"launch", "--nproc", "2", "--", "sh", "-c", command}, run.folder());
  ASSERT_TRUE(wait_until([&] { return is_blocked(pid_of_rank(run.output("job"), 0), SIGTERM) || !job.running(); }));
  job.signal(SIGTERM);
  const Ended& ended = job.wait(kAtOnce);
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_THAT(ended.err, HasSubstr("[0] troupe: ended: " + early(SIGTERM)));
  EXPECT_TRUE(ranks_of(run.output("job")).empty());
}

// As while it reads a large checkpoint: here a recording, which comes by a pipe, and does not come.
TEST(StartSignals, OneToARankThatLoadsEndsTheJobAndLeavesTheFolderFree) {
  const TinyRun run;
  const std::vector<std::string> pulls{"--parallelism.balance=pull", "--parallelism.zero=1"};
  const std::string pipe = run.folder() + "/late";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  auto held = pulls;
  held.push_back("--parallelism.replay=" + pipe);
  ToolProcess job(launched(run, 2, "job", held), run.folder());
  int writer = -1;  // opens when rank 0 reads
  ASSERT_TRUE(wait_until([&] { return (writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0 || !job.running(); }));
  ASSERT_GE(writer, 0) << job.err();
  EXPECT_TRUE(signal_process(pid_of_rank(run.output("job"), 0), SIGTERM));
  const Ended& ended = job.wait(kAtOnce);
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("[0] troupe: ended: " + early(SIGTERM)));
  EXPECT_THAT(ended.err, testing::ContainsRegex("\\[1\\] troupe: .*rank 0 ended the job: " + early(SIGTERM)));
  close(writer);
  const Ended again = run_tool(launched(run, 2, "job", pulls), run.folder());
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

// Whenever it comes: the process ends before the training, or the training ends with a checkpoint.
TEST(StartSignals, NoneIsLost) {
  constexpr int kTrials = 24;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  std::chrono::nanoseconds start{0};  // what it takes to be there; the first trial measures it
  int before = 0, after = 0;
  for (int trial = 0; trial <= kTrials; ++trial) {
    const TinyRun run;
    ToolProcess process(run.train("job", {"--training.steps=100000", "--lr_scheduler.total_steps=100000", "--device.threads=1"}), run.folder());
    ASSERT_TRUE(wait_until([&] { return is_blocked(process.pid(), SIGTERM) || !process.running(); }));
    const auto began = now();
    ASSERT_TRUE(wait_until([&] {
      return trial == 0 ? process.err().find("parameters") != std::string::npos || !process.running() : now() - began >= 2 * start * trial / kTrials;
    }));
    if (trial == 0) start = now() - began;
    process.signal(SIGTERM);
    const Ended& ended = process.wait(std::chrono::seconds(20));
    const bool is_early = ended.exit_code == 128 + SIGTERM;
    EXPECT_TRUE(is_early || ended.exit_code == 0) << "trial " << trial << ": " << ended.exit_code << ", signal " << ended.signal << ": " << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(is_early ? "troupe: ended: " + early(SIGTERM) : "signal SIGTERM"));
    ++(is_early ? before : after);
  }
  EXPECT_GT(before, 0);
  EXPECT_GT(after, 0);
}

}  // namespace
}  // namespace troupe::test
