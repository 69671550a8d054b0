// What several processes must not change: the numbers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "models/checkpoint/directory.h"
#include "models/checkpoint/inspect.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;

std::vector<std::string> alone(const TinyRun& run, const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = launched(run, 1, name, more);
  words.erase(words.begin(), words.begin() + 5);  // launch --nproc 1 -- BINARY
  return words;
}

void expect_close(const std::string& a, const std::string& b) {
  const auto one = steps_of(a), two = steps_of(b);
  ASSERT_FALSE(one.empty());
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(std::stod(one[i].loss) / std::stod(two[i].loss), 1, 1e-6) << "step " << i + 1;
    EXPECT_EQ(one[i].sample_hash, two[i].sample_hash);
    EXPECT_EQ(one[i].tokens, two[i].tokens);
  }
}

TEST(Launched, ProcessesGiveTheLossesOfOneAndTheBitsOfReplicasInOneProcess) {
  const TinyRun run;
  const std::vector<std::string> twenty{"--training.steps=20"};
  ASSERT_EQ(run_tool(alone(run, "one", twenty), run.folder()).exit_code, 0);
  auto both = twenty;
  both.push_back("--parallelism.data_parallel=2");
  const Ended here = run_tool(alone(run, "here", both), run.folder());
  ASSERT_EQ(here.exit_code, 0) << here.err;
  for (const char* zero : {"0", "1", "2", "3"}) {
    auto settings = twenty;
    settings.push_back(std::string("--parallelism.zero=") + zero);
    const std::string name = std::string("two-zero-") + zero;
    const Ended ended = run_tool(launched(run, 2, name, settings), run.folder());
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    expect_close(run.output("one"), run.output(name));
    if (std::stoi(zero) >= 2) continue;  // these add a micro-batch at a time
    EXPECT_EQ(steps_of(run.output("here")), steps_of(run.output(name)));
  }
  EXPECT_EQ(steps_of(run.output("two-zero-2")), steps_of(run.output("two-zero-3")));
}

// Stages in several processes, by the same edges: bit for bit those of one process.
TEST(Launched, StagesInSeveralProcessesGiveTheBitsOfOne) {
  const TinyRun run;
  for (const char* dtype : {"fp32", "bf16"}) {
    const std::vector<std::string> settings{"--parallelism.data_parallel=1", "--parallelism.pipeline=4", std::string("--training.dtype=") + dtype};
    const std::string one = std::string("one-") + dtype;
    ASSERT_EQ(run_tool(alone(run, one, settings), run.folder()).exit_code, 0);
    ASSERT_FALSE(steps_of(run.output(one)).empty());
    for (const int ranks : {2, 4}) {
      const std::string name = std::string(dtype) + "-" + std::to_string(ranks);
      const Ended ended = run_tool(launched(run, ranks, name, settings), run.folder());
      ASSERT_EQ(ended.exit_code, 0) << ended.err;
      EXPECT_EQ(steps_of(run.output(one)), steps_of(run.output(name))) << name;
    }
  }
}

TEST(Launched, ReplicasOfSeveralProcessesGiveTheBitsOfReplicasOfOne) {
  const TinyRun run;
  const std::vector<std::string> settings{"--parallelism.data_parallel=2", "--parallelism.pipeline=2", "--model.tied_embeddings=true"};
  ASSERT_EQ(run_tool(launched(run, 2, "two", settings), run.folder()).exit_code, 0);
  for (const char* zero : {"0", "1"}) {
    const std::string name = std::string("four-") + zero;
    auto more = settings;
    more.push_back(std::string("--parallelism.zero=") + zero);
    const Ended ended = run_tool(launched(run, 4, name, more), run.folder());
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(steps_of(run.output("two")), steps_of(run.output(name)));
  }
}

TEST(Launched, ProcessesThatPullGiveTheSameLossesAndTheirBitsAgain) {
  const TinyRun run;
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--training.steps=20", "--training.global_batch=8", "--optimizer.lr=0.001", "--parallelism.zero=1"});
    return more;
  };
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    const Ended ended = run_tool(launched(run, 2, name, with(more)), run.folder());
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
  };
  train("static", {});
  train("pull", {"--parallelism.balance=pull"});
  train("replay", {"--parallelism.balance=pull", "--parallelism.replay=" + run.output("pull") + "/metrics.jsonl"});
  expect_close(run.output("static"), run.output("pull"));
  EXPECT_EQ(steps_of(run.output("pull")), steps_of(run.output("replay")));
  const Ended refused =
      run_tool(launched(run, 2, "refused", with({"--parallelism.balance=pull", "--parallelism.replay=none.jsonl"})), run.folder());
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("none.jsonl"));
}

TEST(Launched, OpenMpiStartsTheSameJob) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "skipped because there is no mpirun here";
  const TinyRun run;
  ASSERT_EQ(run_tool(launched(run, 2, "ours"), run.folder()).exit_code, 0);
  std::string command = "cd " + run.folder() + " && mpirun -n 2 --allow-run-as-root --oversubscribe " TROUPE_BINARY;
  for (const auto& word : alone(run, "mpi", {"--parallelism.data_parallel=2"})) command += " '" + word + "'";
  ASSERT_EQ(std::system((command + " >mpi.log 2>&1").c_str()), 0) << read_text(run.folder() + "/mpi.log");
  EXPECT_EQ(steps_of(run.output("ours")), steps_of(run.output("mpi")));
  EXPECT_THAT(read_text(run.folder() + "/mpi.log"), HasSubstr("found by Open MPI"));
}

TEST(Launched, SlurmStartsTheSameJob) {
  const TinyRun run;
  ASSERT_EQ(run_tool(launched(run, 2, "ours"), run.folder()).exit_code, 0);
  std::string command = WITH_SLURM " srun -n 2 --overcommit " TROUPE_BINARY;
  for (const auto& word : alone(run, "slurm", {"--parallelism.data_parallel=2"})) command += " '" + word + "'";
  const int status = std::system((command + " >" + run.folder() + "/slurm.log 2>&1").c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "skipped because " << read_text(run.folder() + "/slurm.log");
  ASSERT_EQ(status, 0) << read_text(run.folder() + "/slurm.log");
  EXPECT_EQ(steps_of(run.output("ours")), steps_of(run.output("slurm")));
  EXPECT_THAT(read_text(run.folder() + "/slurm.log"), HasSubstr("found by Slurm"));
}

// What `troupe manifest slurm` prints, submitted.
TEST(Launched, ABatchScriptStartsTheSameJob) {
  const TinyRun run;
  const std::vector<std::string> two{"--parallelism.data_parallel=2"};
  ASSERT_EQ(run_tool(launched(run, 2, "ours"), run.folder()).exit_code, 0);
  std::vector<std::string> words{"manifest", "slurm", run.config(), "--binary", TROUPE_BINARY};
  for (const auto& word : alone(run, "batch", two)) {
    if (word.starts_with("--")) words.push_back(word);
  }
  const Ended printed = run_tool(words, run.folder());
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  std::ofstream(run.folder() + "/job.sh") << printed.out;
  const int status = std::system(("cd " + run.folder() + " && " WITH_SLURM " sbatch --wait --overcommit job.sh >slurm.log 2>&1").c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "skipped because " << read_text(run.folder() + "/slurm.log");
  ASSERT_EQ(status, 0) << read_text(run.folder() + "/slurm.log") << read_text(run.folder() + "/tiny-1.log");
  EXPECT_EQ(steps_of(run.output("ours")), steps_of(run.output("batch")));
}

TEST(Launched, AKubernetesManifestNamesEveryRank) {
  const TinyRun run;
  const Ended printed = run_tool({"manifest", "kubernetes", run.config(), "--image", "registry/troupe:1", "--training.global_batch=8",
                                  "--parallelism.data_parallel=8"}, run.folder());
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  for (const char* line : {"completions: 8", "parallelism: 8", "completionMode: Indexed", "image: registry/troupe:1", "RANK=$JOB_COMPLETION_INDEX",
                           "tiny.toml --training.global_batch=8 --parallelism.data_parallel=8\"]", "{name: WORLD_SIZE, value: \"8\"}", "{name: MASTER_ADDR, value: \"tiny-0.tiny\"}", "clusterIP: None",
                           "{name: TROUPE_SECRET, valueFrom: {secretKeyRef: {name: tiny-secret, key: secret}}}",
                           "#   kubectl create secret generic tiny-secret --from-literal=secret="}) {
    EXPECT_THAT(printed.out, HasSubstr(line));
  }
  // Twelve ranks: nobody says how many there are on a node.
  const Ended again = run_tool({"manifest", "kubernetes", run.config(), "--image", "registry/troupe:1", "--training.global_batch=12",
                                "--parallelism.data_parallel=12"}, run.folder());
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("completions: 12"));
}

TEST(Launched, SshStartsTheSameJobOnAHost) {
  const TinyRun run;
  ASSERT_EQ(run_tool(launched(run, 2, "ours"), run.folder()).exit_code, 0);
  std::string words;
  for (const auto& word : alone(run, "ssh", {"--parallelism.data_parallel=2"})) words += " '" + word + "'";
  const int status = std::system((WITH_SSHD " sh -c '\"$0\" launch --hosts 127.0.0.1:2 --ssh \"$SSH\" -- \"$@\"' " TROUPE_BINARY " " TROUPE_BINARY + words + " >" +
                                  run.folder() + "/ssh.log 2>&1").c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "skipped because " << read_text(run.folder() + "/ssh.log");
  ASSERT_EQ(status, 0) << read_text(run.folder() + "/ssh.log");
  EXPECT_EQ(steps_of(run.output("ours")), steps_of(run.output("ssh")));
}

// torchrun's variables, set by whatever starts the processes.
TEST(Launched, TorchrunsVariablesAreEnough) {
  const TinyRun run;
  ASSERT_EQ(run_tool(launched(run, 2, "ours"), run.folder()).exit_code, 0);
  std::string words;
  for (const auto& word : alone(run, "torchrun", {"--parallelism.data_parallel=2"})) words += " '" + word + "'";
  const std::string port = std::to_string(20'000 + getpid() % 20'000);
  const auto rank = [&](int r) {
    return "RANK=" + std::to_string(r) + " WORLD_SIZE=2 LOCAL_RANK=" + std::to_string(r) +
           " LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " TROUPE_BINARY + words + " >torchrun.log." + std::to_string(r) + " 2>&1";
  };
  ASSERT_EQ(std::system(("cd " + run.folder() + " && (" + rank(1) + " & other=$!; " + rank(0) + " && wait $other)").c_str()), 0)
      << read_text(run.folder() + "/torchrun.log.0") << read_text(run.folder() + "/torchrun.log.1");
  EXPECT_EQ(steps_of(run.output("ours")), steps_of(run.output("torchrun")));
}

// CASES T06, T18: each rank writes its part, and any number of processes reads it.
TEST(Launched, AJobGoesOnWithAnotherNumberOfProcesses) {
  const TinyRun run;
  ASSERT_EQ(run_tool(alone(run, "whole", {"--training.steps=9", "--lr_scheduler.total_steps=9"}), run.folder()).exit_code, 0);
  const auto until = [&](int ranks, const char* steps) {
    const Ended ended = run_tool(launched(run, ranks, "parts", {std::string("--training.steps=") + steps, "--lr_scheduler.total_steps=9", "--parallelism.zero=1"}), run.folder());
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    const auto newest = checkpoint::newest_complete(run.output("parts"));
    ASSERT_TRUE(newest.ok());
    EXPECT_TRUE(checkpoint::verify(newest->path).ok());
    for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE(std::filesystem::exists(newest->path + "/model-0000" + std::to_string(rank) + ".safetensors"));
  };
  until(2, "3");
  until(4, "6");
  until(1, "9");
  expect_close(run.output("whole"), run.output("parts"));
}

// As when it reads a large checkpoint again before it goes on: here a recording, which only rank 0 reads, comes late by a pipe.
TEST(Launched, ARankThatStartsLongAfterTheOthersIsNotGivenUp) {
  const TinyRun run;
  const auto train = [&](const std::string& name, const std::string& more) {
    return launched(run, 2, name, {"--parallelism.balance=pull", "--job.heartbeat_timeout_s=0.5", more});
  };
  ASSERT_EQ(run_tool(train("first", "--parallelism.zero=1"), run.folder()).exit_code, 0);
  const std::string pipe = run.folder() + "/late";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ToolProcess job(train("held", "--parallelism.replay=" + pipe), run.folder());
  int writer = -1;  // opens when rank 0 reads
  ASSERT_TRUE(wait_until([&] { return (writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0 || !job.running(); }));
  ASSERT_GE(writer, 0) << job.err();
  const auto held = std::chrono::steady_clock::now();
  wait_until([&] { return !job.running() || std::chrono::steady_clock::now() - held > std::chrono::seconds(3); });
  EXPECT_TRUE(job.running()) << job.err();
  const std::string recorded = read_text(run.output("first") + "/metrics.jsonl");
  EXPECT_EQ(write(writer, recorded.data(), recorded.size()), static_cast<ssize_t>(recorded.size()));
  close(writer);
  const Ended& ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(steps_of(run.output("held")).size(), 6u);
}

TEST(Launched, ASignalToAnyRankEndsTheJobTogetherWithACheckpoint) {  // CASES T32
  const TinyRun run;
  for (const int rank : {0, 1}) {
    const std::string name = "stopped-" + std::to_string(rank), output = run.output(name);
    ToolProcess job(launched(run, 2, name, {"--training.steps=100000", "--lr_scheduler.total_steps=100000"}), run.folder());
    ASSERT_TRUE(wait_until([&] { return steps_of(output).size() >= 2 || !job.running(); })) << job.err();
    EXPECT_TRUE(signal_process(pid_of_rank(output, rank), SIGTERM));
    const Ended& ended = job.wait(std::chrono::seconds(20));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    const auto newest = checkpoint::newest_complete(output);
    ASSERT_TRUE(newest.ok());
    EXPECT_EQ(std::to_string(newest->step.value), steps_of(output).back().step);
  }
}

// As some batch systems do: each rank gets it twice, from outside and passed on by the launcher.
TEST(Launched, ASignalToTheRanksAndTheirLauncherIsOneRequest) {
  const TinyRun run;
  const std::string output = run.output("stopped");
  ToolProcess job(launched(run, 2, "stopped", {"--training.steps=100", "--training.global_batch=2000"}), run.folder());
  ASSERT_TRUE(wait_until([&] { return !steps_of(output).empty() || !job.running(); })) << job.err();
  for (const int rank : {0, 1}) {
    const pid_t pid = pid_of_rank(output, rank);
    EXPECT_TRUE(signal_process(pid, SIGTERM));
    ASSERT_TRUE(wait_until([&] { return !is_pending(pid, SIGTERM); }));  // two that are pending would be one
  }
  job.signal(SIGTERM);
  const Ended& ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const auto newest = checkpoint::newest_complete(output);
  ASSERT_TRUE(newest.ok()) << ended.err;
  EXPECT_EQ(std::to_string(newest->step.value), steps_of(output).back().step);
}

}  // namespace
}  // namespace troupe::test
