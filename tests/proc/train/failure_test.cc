// Whatever happens to a rank: all processes end within seconds, and the first cause is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <regex>
#include <thread>

#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using testing::AllOf, testing::HasSubstr;
constexpr std::chrono::seconds kSoon{10};

class Failure : public testing::Test {
 protected:
  // A job that would go on for long, at its third step.
  void begin(int ranks, const std::vector<std::string>& more = {}) {
    std::vector<std::string> settings{"--training.steps=100000", "--lr_scheduler.total_steps=100000", "--training.global_batch=4"};
    settings.insert(settings.end(), more.begin(), more.end());
    job_.emplace(launched(run_, ranks, "job", settings), run_.folder());
    ASSERT_TRUE(wait_until([&] { return steps_of(output()).size() >= 3 || !job_->running(); }));
    ASSERT_TRUE(job_->running()) << job_->err();
    ASSERT_EQ(ranks_of(output()).size(), static_cast<std::size_t>(ranks));
  }
  std::string output() const { return run_.output("job"); }
  // A job of two ranks, each started by a shell that knows its rank: `before` the program, `after` its arguments.
  Ended run_by_shell(const std::string& before, const std::string& after) const {
    std::string command = before + "exec";
    const auto words = launched(run_, 2, "job");
    for (std::size_t i = 4; i < words.size(); ++i) command += " '" + words[i] + "'";
    return run_tool({"launch", "--nproc", "2", "--", "sh", "-c", command + " " + after}, run_.folder());
  }
  void expect_nobody_left() {
    EXPECT_TRUE(wait_until([&] { return ranks_of(output()).empty(); }, kSoon)) << ranks_of(output()).size() << " ranks are left";
  }

  TinyRun run_;
  std::optional<ToolProcess> job_;
};

TEST_F(Failure, AKilledRankEndsTheJobAndIsNamed) {
  for (const int rank : {0, 1, 3}) {
    std::filesystem::remove_all(output());
    begin(4);
    EXPECT_TRUE(signal_process(pid_of_rank(output(), rank), SIGKILL));
    const Ended& ended = job_->wait(kSoon);
    EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("rank " + std::to_string(rank) + " on localhost"), HasSubstr("signal 9"))) << ended.err;
    EXPECT_THAT(ended.err, testing::ContainsRegex("troupe: what the actors of rank " + std::to_string(rank) +
                                                  " did, [0-9.]+ s before its end:\n\\[" + std::to_string(rank) + "\\] [a-z]"));
    for (const int other : {0, 1, 2, 3}) {  // all name the first that failed, and none one that ended because of it
      if (other == rank) continue;
      EXPECT_THAT(ended.err, testing::ContainsRegex("\\[" + std::to_string(other) + "\\] troupe: actor '[a-z]+' failed: rank " + std::to_string(rank) + " "));
    }
    expect_nobody_left();
  }
}

// The evaluation of step 2 is long, and a step's line is written after its evaluation: as long as there is one line it goes on.
TEST_F(Failure, ARankThatIsKilledDuringAnEvaluationEndsTheJobAndIsNamed) {
  std::string text;
  while (text.size() < 2'000'000) text += "the ledger waits for the evaluation of a step ";
  std::ofstream(run_.folder() + "/long.txt") << text;
  ASSERT_EQ(run_tool({"data", "prepare", run_.folder() + "/long.txt", "-o", run_.folder() + "/long"}, run_.folder()).exit_code, 0);
  const std::vector<std::string> settings{"--training.steps=100000", "--lr_scheduler.total_steps=100000", "--training.global_batch=4",
                                          "--data.validation=" + run_.folder() + "/long", "--validation.interval=2", "--validation.steps=100000"};
  const std::vector<std::string> replicas{"--parallelism.data_parallel=4"}, stages{"--parallelism.data_parallel=2", "--parallelism.pipeline=2"};
  for (const auto& [rank, plan] : {std::pair{0, replicas}, {2, replicas}, {1, stages}}) {
    std::filesystem::remove_all(output());
    auto more = settings;
    more.insert(more.end(), plan.begin(), plan.end());
    job_.emplace(launched(run_, 4, "job", more), run_.folder());
    const auto evaluates = [&] {
      return read_text(variable_of(pid_of_rank(output(), 0), "TROUPE_STATE_FILE")).find("ledger: waiting for evaluation") != std::string::npos;
    };
    ASSERT_TRUE(wait_until([&] { return evaluates() || !job_->running(); }));
    ASSERT_TRUE(job_->running()) << job_->err();
    EXPECT_TRUE(signal_process(pid_of_rank(output(), rank), SIGKILL));
    const Ended& ended = job_->wait(kSoon);
    EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("rank " + std::to_string(rank) + " on localhost"), HasSubstr("signal 9"))) << ended.err;
    EXPECT_EQ(steps_of(output()).size(), 1u) << "the evaluation had ended";
    expect_nobody_left();
  }
}

// With the heartbeats' own time, which is most of what there is.
TEST_F(Failure, AStoppedRankEndsTheJobWithinTenSecondsByDefault) {
  begin(4);
  EXPECT_TRUE(signal_process(pid_of_rank(output(), 2), SIGSTOP));
  const Ended& ended = job_->wait(kSoon);
  EXPECT_THAT(ended.err, HasSubstr("rank 2 is down: nothing was heard of it for 5000 ms"));
  expect_nobody_left();
}

// Rank 1 has stages in the middle of the pipeline.
TEST_F(Failure, AKilledMiddleOfAPipelineEndsTheJobAndIsNamed) {
  begin(4, {"--parallelism.data_parallel=1", "--parallelism.pipeline=4"});
  EXPECT_TRUE(signal_process(pid_of_rank(output(), 1), SIGKILL));
  const Ended& ended = job_->wait(kSoon);
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("rank 1"), HasSubstr("signal 9"))) << ended.err;
  expect_nobody_left();
}

// CASES A15: UCX says nothing of a stopped peer.
TEST_F(Failure, AStoppedRankEndsTheJobAndIsNamed) {
  begin(2, {"--job.heartbeat_timeout_s=1.5"});
  EXPECT_TRUE(signal_process(pid_of_rank(output(), 1), SIGSTOP));
  const Ended& ended = job_->wait(kSoon);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err + ended.out, HasSubstr("rank 1 is down: nothing was heard of it for 1500 ms"));
  expect_nobody_left();
}

TEST_F(Failure, AShortStopIsNoDeath) {  // CASES A15
  begin(2, {"--job.heartbeat_timeout_s=4"});
  const pid_t rank = pid_of_rank(output(), 1);
  EXPECT_TRUE(signal_process(rank, SIGSTOP));
  const auto stopped = std::chrono::steady_clock::now();
  wait_until([&] { return std::chrono::steady_clock::now() - stopped > std::chrono::seconds(1); });
  EXPECT_TRUE(signal_process(rank, SIGCONT));
  const auto steps = steps_of(output()).size();
  EXPECT_TRUE(wait_until([&] { return steps_of(output()).size() > steps + 5; }, kSoon));
  EXPECT_TRUE(job_->running());
}

// CASES T25: a rank that lives, for all that is known, and does not come.
TEST_F(Failure, ARankThatIsWaitedForIsNamedWithWhatWaits) {  // CASES A02: who has not sent what
  begin(4, {"--job.heartbeat_timeout_s=100", "--limits.shutdown_seconds=200", "--job.stall_min_s=2"});
  const pid_t rank = pid_of_rank(output(), 2);
  EXPECT_TRUE(signal_process(rank, SIGSTOP));
  const std::regex report("\\[0\\] [^\n]*step [0-9]+ is not closed after [^\n]*: rank 2: silent for [^\n]*no answer");
  EXPECT_TRUE(wait_until([&] { return std::regex_search(job_->err(), report); }, std::chrono::seconds(20))) << job_->err();
  EXPECT_TRUE(signal_process(rank, SIGCONT));
  const auto steps = steps_of(output()).size();
  EXPECT_TRUE(wait_until([&] { return steps_of(output()).size() > steps + 5; }, kSoon));
}

// CASES A21: one signal to the launcher lists what every actor of every rank does and waits for, and disturbs nobody.
TEST_F(Failure, ASignalListsWhatEveryActorOfEveryRankDoes) {
  begin(2);
  job_->signal(SIGQUIT);
  const auto listed = [&](const std::string& rank, const std::string& actor) {
    return job_->err().find("\n[" + rank + "] " + actor + " ") != std::string::npos;
  };
  for (const std::string rank : {"0", "1"}) {
    for (const std::string actor : {"device", "stage-0", "shard-0", "replicas", "replica", "source"}) {
      EXPECT_TRUE(wait_until([&] { return listed(rank, actor); }, kSoon)) << rank << " " << actor << "\n" << job_->err();
    }
  }
  const auto steps = steps_of(output()).size();
  EXPECT_TRUE(wait_until([&] { return steps_of(output()).size() > steps + 5; }, kSoon));
}

TEST_F(Failure, NobodyIsLeftWhenTheLauncherIsKilled) {
  begin(4);
  job_->signal(SIGKILL);
  job_->wait(kSoon);
  expect_nobody_left();
}

// The same for a host that is reached by ssh: its name is said, and nobody is left there.
TEST_F(Failure, ARankOfAnotherHostThatIsKilledIsNamed) {
  auto words = launched(run_, 2, "job", {"--training.steps=100000", "--lr_scheduler.total_steps=100000"});
  std::string command = WITH_SSHD " sh -c '\"$0\" launch --hosts 127.0.0.1:2 --ssh \"$SSH\" -- \"$@\"; echo exit code $?' " TROUPE_BINARY;
  for (std::size_t i = 4; i < words.size(); ++i) command += " '" + words[i] + "'";
  const std::string log = run_.folder() + "/ssh.log";
  std::thread job([&] { EXPECT_NE(std::system((command + " >" + log + " 2>&1").c_str()), -1); });
  const auto missing = [&] { return read_text(log).find(" here\n") != std::string::npos; };
  EXPECT_TRUE(wait_until([&] { return steps_of(output()).size() >= 3 || missing(); })) << read_text(log);
  const pid_t rank = pid_of_rank(output(), 1);
  signal_process(rank, SIGKILL);
  job.join();
  if (missing()) GTEST_SKIP() << "skipped because " << read_text(log);
  EXPECT_THAT(read_text(log), AllOf(HasSubstr("rank 1 on 127.0.0.1"), HasSubstr("signal 9"), HasSubstr("exit code 137"))) << read_text(log);
  expect_nobody_left();
}

TEST_F(Failure, AnotherNumberOfProcessesThanReplicasIsRefused) {
  const Ended ended = run_tool(launched(run_, 2, "job", {"--parallelism.data_parallel=4"}), run_.folder());
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("parallelism.data_parallel = 4"), HasSubstr("2 processes"), HasSubstr("Start 4 (troupe launch")));
  EXPECT_FALSE(std::filesystem::exists(output()));
}

TEST_F(Failure, RanksWithDifferentConfigsAreRefused) {
  const Ended ended = run_by_shell("", "--optimizer.beta1=0.$((8 + TROUPE_RANK))");
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 runs another config than this process"));
  expect_nobody_left();
}

// Nobody stops the others for them: they hear it from the job's store.
TEST_F(Failure, WithoutALauncherARankThatFailsEndsTheOthers) {
  std::string words;
  const auto all = launched(run_, 2, "job");
  for (std::size_t i = 5; i < all.size(); ++i) words += " '" + all[i] + "'";
  const std::string port = std::to_string(20'000 + getpid() % 20'000);
  const auto rank = [&](int r, const std::string& more) {
    return "RANK=" + std::to_string(r) + " WORLD_SIZE=2 LOCAL_RANK=" + std::to_string(r) + " LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
           " timeout 30 " TROUPE_BINARY + words + more + " >log." + std::to_string(r) + " 2>&1";
  };
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(("cd " + run_.folder() + " && (" + rank(1, " --data.train=nowhere") + " & " + rank(0, "") + ")").c_str());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  // By the store, or by the other's transport, whichever is sooner.
  EXPECT_THAT(read_text(run_.folder() + "/log.0"), testing::ContainsRegex("rank 1 (ended the job|is down)[^\n]*nowhere")) << read_text(run_.folder() + "/log.1");
}

TEST_F(Failure, ARankThatCannotReadTheCorpusIsNamed) {
  const Ended ended = run_by_shell("[ $TROUPE_RANK = 1 ] && more=--data.train=nowhere; ", "$more");
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("nowhere"));
  expect_nobody_left();
}

}  // namespace
}  // namespace troupe::test
