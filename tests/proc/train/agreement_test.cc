// What the processes of a job agree on before anything is changed: one folder, one checkpoint that is whole.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using testing::AllOf, testing::ContainsRegex, testing::HasSubstr, testing::Not;
constexpr std::chrono::seconds kAgreedSoon{10};

class Agreement : public testing::Test {
 protected:
  // Below a folder of its own, on which a rank may mount another one.
  std::string output() const { return run_.output("shared/job"); }
  // Four ranks, each in a mount namespace of its own, in which a shell runs `before` first.
  Ended launch_in_namespaces(const std::string& before, const std::string& steps) {
    std::string command = before + "\nexec";
    const auto words = launched(run_, 4, "shared/job", {"--training.global_batch=4", "--lr_scheduler.total_steps=6", "--training.steps=" + steps});
    for (std::size_t i = 4; i < words.size(); ++i) command += " '" + words[i] + "'";
    ToolProcess job({"launch", "--nproc", "4", "--", "unshare", "-m", "sh", "-ec", command}, run_.folder());
    return job.wait(kAgreedSoon);
  }

  TinyRun run_;
};

TEST_F(Agreement, AFolderThatIsNotSharedIsRefusedAndWhoDoesNotSeeItIsNamed) {
  std::filesystem::create_directory(run_.folder() + "/shared");
  if (std::system("unshare -m true 2>/dev/null") != 0) GTEST_SKIP() << "skipped because a mount namespace cannot be made here";
  const Ended shared = launch_in_namespaces("", "3");
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  const auto before = contents_of(output());
  // Rank 1 has an empty folder, rank 3 one of another run.
  const std::string own = "[ $TROUPE_RANK = 0 ] || [ $TROUPE_RANK = 2 ] || mount -t tmpfs none '" + run_.folder() + "/shared'\n" +
                          "[ $TROUPE_RANK != 3 ] || { mkdir '" + output() + "'; echo pid 12 on elsewhere >'" + output() + "/.lock'; }";
  const Ended refused = launch_in_namespaces(own, "6");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, ContainsRegex("rank 1 on [^ ]+: job.output = " + output() + " is not the folder that rank 0 has locked: [^\n]*No such file"));
  EXPECT_THAT(refused.err, ContainsRegex("rank 3 on [^ ]+: job.output = [^\n]* is of another run \\(pid 12 on elsewhere\\)"));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("name one on a file system that all hosts of the job share"), Not(HasSubstr("rank 2 on"))));
  EXPECT_TRUE(contents_of(output()) == before) << "the folder was changed";
  EXPECT_EQ(steps_of(output()).size(), 3u);
  EXPECT_TRUE(ranks_of(output()).empty());
  EXPECT_EQ(launch_in_namespaces("", "6").exit_code, 0);
  EXPECT_EQ(steps_of(output()).size(), 6u);
}

// CASES T17: each rank reads its share of the bytes once more, so nobody waits for one that reads all.
TEST_F(Agreement, AnAlteredByteThatOnlyOneRankReadsIsSaidByItAndHeardByAll) {
  const auto train = [&](const char* steps) {
    return run_tool(launched(run_, 2, "job", {"--parallelism.data_parallel=1", "--parallelism.pipeline=2", "--lr_scheduler.total_steps=6",
                                              std::string("--training.steps=") + steps}), run_.folder());
  };
  ASSERT_EQ(train("3").exit_code, 0);
  const std::string file = run_.output("job") + "/checkpoints/step-00000003/model-00001.safetensors", whole = read_text(file);
  ASSERT_GT(whole.size(), 1000u);
  std::string altered = whole;
  altered[altered.size() - 100] = static_cast<char>(altered[altered.size() - 100] ^ 1);
  std::ofstream(file, std::ios::binary) << altered;
  const auto before = contents_of(run_.output("job"));
  const Ended refused = train("6");
  EXPECT_EQ(refused.exit_code, 1);
  const std::string said = file + ": altered: [^\n]*: take an older checkpoint or copy this one again";
  EXPECT_THAT(refused.err, ContainsRegex("\\[1\\] troupe: " + said));
  EXPECT_THAT(refused.err, ContainsRegex("\\[0\\] troupe: rank 1 ended the job: " + said));
  EXPECT_TRUE(contents_of(run_.output("job")) == before) << "the folder was changed";
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_EQ(train("6").exit_code, 0);
  EXPECT_EQ(steps_of(run_.output("job")).size(), 6u);
}

// CASES A15: the others wait for it in the store, which knows who has died but not who has stopped. Rank 0 is held where it reads a recording.
TEST_F(Agreement, ARankThatStopsBeforeAllHaveStartedEndsTheJobAndIsNamed) {
  const std::string pipe = run_.folder() + "/late";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ToolProcess job(launched(run_, 4, "job", {"--training.global_batch=4", "--parallelism.balance=pull", "--parallelism.zero=1",
                                            "--job.heartbeat_timeout_s=1.5", "--parallelism.replay=" + pipe}), run_.folder());
  int writer = -1;  // opens when rank 0 reads
  ASSERT_TRUE(wait_until([&] { return (writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0 || !job.running(); }));
  ASSERT_GE(writer, 0) << job.err();
  EXPECT_TRUE(signal_process(pid_of_rank(run_.output("job"), 0), SIGSTOP));
  const Ended& ended = job.wait(kAgreedSoon);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("rank 0 is down: nothing was heard of it for 1500 ms"));
  close(writer);
}

}  // namespace
}  // namespace troupe::test
