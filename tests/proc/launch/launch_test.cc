// `troupe launch` with small programs: places, output, failures. Nobody is left behind, whatever happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/proc/launch/launch_fixture.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST_F(Launch, TellsEachRankItsPlaceInOurWordsAndTorchruns) {
  const Ended ended = run({"--nproc", "3", "--env", "MINE=a b'c"},
                          script("echo $TROUPE_RANK $TROUPE_WORLD_SIZE $TROUPE_LOCAL_RANK $TROUPE_LOCAL_WORLD_SIZE = $RANK "
                                 "$WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE, $MASTER_ADDR $MINE\n"
                                 "echo store $TROUPE_STORE $TROUPE_SECRET, master $MASTER_PORT"));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  std::set<std::string> stores;
  for (const auto& line : lines_of(ended.out)) {
    if (const auto at = line.find("store "); at != std::string::npos) stores.insert(line.substr(at));
  }
  for (const char* rank : {"0", "1", "2"}) {
    const std::string r = rank;
    EXPECT_THAT(lines_of(ended.out),
                testing::Contains("[" + r + "] " + r + " 3 " + r + " 3 = " + r + " 3 " + r + " 3, 127.0.0.1 a b'c"));
  }
  ASSERT_EQ(stores.size(), 1u) << "all ranks are told the same";
  EXPECT_THAT(*stores.begin(), testing::ContainsRegex("^store 127.0.0.1:[0-9]+ [0-9a-f]{32}, master [0-9]+$"));
}

TEST_F(Launch, TheUsersVariablesWin) {
  for (const Words& where : {Words{"--nproc", "1"}, Words{"--hosts", "alpha:1", "--ssh", kFakeSsh}}) {
    Words options = where;
    for (const char* variable : {"UCX_POSIX_DIR=/x", "MASTER_ADDR=me", "MASTER_PORT=7", "TWICE=first", "TWICE=last", "HOME=mine"})
      options.insert(options.end(), {"--env", variable});
    const Ended ended = run(options, {"sh", "-c", "echo $UCX_POSIX_DIR $MASTER_ADDR $MASTER_PORT $TWICE $HOME; tr '\\0' '\\n' </proc/$$/environ | grep -c TWICE"});
    EXPECT_EQ(ended.out, "[0] /x me 7 last mine\n[0] 1\n") << ended.err;
  }
}

TEST_F(Launch, PassesArgumentsAsTheyAre) {
  const Words program{"printf", "%s|", "a b", "", "'", "--nproc", "train", "--", "$HOME", "\\"};
  EXPECT_EQ(run({}, program).out, "[0] a b||'|--nproc|train|--|$HOME|\\|\n");
  // the "--" may be left out
  Words words{"launch", "--nproc", "1"};
  words.insert(words.end(), program.begin(), program.end());
  EXPECT_EQ(run_tool(words, folder_).out, "[0] a b||'|--nproc|train|--|$HOME|\\|\n");
}

TEST_F(Launch, KeepsLinesWholeAndInOrder) {
  const Ended ended = run({"--nproc", "2"}, script("i=0; while [ $i -lt 200 ]; do printf 'line '; printf $i; echo; printf 'error "
                                                   "' >&2; echo $i >&2; i=$((i+1)); done; printf 'no end'"));
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  for (const std::string rank : {"[0] ", "[1] "}) {
    Words out, err;
    for (const auto& line : lines_of(ended.out)) {
      if (line.starts_with(rank)) out.push_back(line.substr(4));
    }
    for (const auto& line : lines_of(ended.err)) {
      if (line.starts_with(rank)) err.push_back(line.substr(4));
    }
    ASSERT_EQ(out.size(), 201u);
    ASSERT_EQ(err.size(), 200u);
    for (std::size_t i = 0; i < 200; ++i) {
      EXPECT_EQ(out[i], "line " + std::to_string(i));
      EXPECT_EQ(err[i], "error " + std::to_string(i));
    }
    EXPECT_EQ(out[200], "no end");
  }
}

TEST_F(Launch, ALineWithoutAnEndMeetsNoLineOfTheOtherStream) {
  const Ended ended = run({"--log-dir", path("logs")}, script("printf 'out has no end'; printf 'err has no end' >&2; echo ' yet' >&2; printf 'nor now' >&2"));
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.out, "[0] out has no end\n");
  EXPECT_EQ(ended.err, "[0] err has no end yet\n[0] nor now\n");
  EXPECT_THAT(lines_of(read_text(path("logs/rank-0.log"))), testing::UnorderedElementsAre("out has no end", "err has no end yet", "nor now"));
}

TEST_F(Launch, NobodyReadsItsInput) {
  const std::string line = "printf 'one\\ntwo\\n' | (" TROUPE_BINARY " launch --nproc 2 -- cat; cat) > " + path("text");
  EXPECT_EQ(std::system(line.c_str()), 0);
  EXPECT_EQ(read_text(path("text")), "one\ntwo\n");
}

TEST_F(Launch, KeepsTheLogsOfEarlierLaunches) {
  const auto launch_with = [&](const std::string& ranks, const std::string& said) {
    const Ended ended = run({"--nproc", ranks, "--log-dir", path("logs")}, {"sh", "-c", "echo " + said});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  };
  launch_with("3", "first");
  std::ofstream(path("logs/rank-of-mine.log")) << "mine";
  launch_with("2", "second");
  launch_with("1", "third");
  std::map<std::string, std::string> logs;
  for (const auto& entry : fs::directory_iterator(path("logs"))) logs[entry.path().filename()] = read_text(entry.path());
  EXPECT_THAT(logs, testing::UnorderedElementsAre(
                        std::pair("rank-0.log", "third\n"), std::pair("rank-0.log.1", "first\n"), std::pair("rank-1.log.1", "first\n"),
                        std::pair("rank-2.log.1", "first\n"), std::pair("rank-0.log.2", "second\n"), std::pair("rank-1.log.2", "second\n"),
                        std::pair("rank-of-mine.log", "mine")));
}

TEST_F(Launch, KeepsALogOfEachRank) {
  const Ended ended = run({"--nproc", "2", "--log-dir", path("logs/here")}, script("echo out of $RANK; echo err of $RANK >&2"));
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  for (const std::string rank : {"0", "1"}) {
    EXPECT_THAT(lines_of(read_text(path("logs/here/rank-" + rank + ".log"))),
                testing::UnorderedElementsAre("out of " + rank, "err of " + rank));
  }
}

TEST_F(Launch, TheFirstFailureEndsAllAndGivesTheExitCode) {
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = run({"--nproc", "3"}, script("if [ $RANK != 1 ]; then\n" + std::string(kStubborn) +
                                                   "\nfi\nuntil [ -e ready-0 -a -e ready-2 ]; do sleep 0.01; done\ni=0; while [ "
                                                   "$i -lt 30 ]; do echo trouble $i >&2; i=$((i+1)); done; exit 7"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kStoppedWithin + 2s);
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_THAT(ended.err, HasSubstr("troupe: rank 1 on localhost exited with code 7\n"));
  EXPECT_THAT(ended.err, HasSubstr("ranks 0, 2 did not end and are killed"));
  // its last words stand last, twenty of them
  const Words lines = lines_of(ended.err);
  ASSERT_GT(lines.size(), 50u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(lines[lines.size() - 20 + i], "[1] trouble " + std::to_string(10 + i));
  EXPECT_THAT(lines[lines.size() - 21], HasSubstr("the last of what rank 1 wrote to stderr"));
}

TEST_F(Launch, ADeathsReportHasWhatTheRankHadWrittenDownOfItself) {
  for (const Words& where : {Words{"--nproc", "2"}, Words{"--hosts", "alpha:1,localhost:1", "--ssh", kFakeSsh}}) {
    const Ended ended = run(where, script("if [ $RANK = 0 ]; then echo 'stage-0: running forward' > $TROUPE_STATE_FILE; kill -9 $$; fi\n"
                                          "exec sleep 100"));
    EXPECT_EQ(ended.exit_code, 137);
    EXPECT_THAT(ended.err, testing::ContainsRegex("troupe: what the actors of rank 0 did, [0-9]\\.[0-9] s before its end:\n"
                                                  "\\[0\\] stage-0: running forward\n"));
  }
}

TEST_F(Launch, OthersGetSigtermFirst) {
  const Ended ended = run({"--nproc", "2"}, script("if [ $RANK = 0 ]; then trap 'echo saved; exit 0' TERM; ready; while :; do "
                                                   "sleep 0.01; done; fi\nuntil [ -e ready-0 ]; do sleep 0.01; done; exit 3"));
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.out, "[0] saved\n");
  EXPECT_THAT(ended.err, Not(HasSubstr("killed")));
}

TEST_F(Launch, ASignalsDeathIs128AndItsNumber) {
  for (const auto& [name, number] : {std::pair("KILL", 9), std::pair("SEGV", 11)}) {
    const Ended ended = run({"--nproc", "2"},
                            script("if [ $RANK = 1 ]; then ulimit -c 0; kill -" + std::string(name) + " $$; fi\nexec sleep 100"));
    EXPECT_EQ(ended.exit_code, 128 + number);
    EXPECT_THAT(ended.err, HasSubstr("rank 1 on localhost died of signal " + std::to_string(number) + " (SIG" + name + ")"));
  }
}

TEST_F(Launch, TheTimeoutEndsTheJob) {
  const Ended ended = run({"--nproc", "2", "--timeout", "0.5"}, script("exec sleep 100"));
  EXPECT_EQ(ended.exit_code, 124);
  EXPECT_THAT(ended.err, HasSubstr("0.5 s of --timeout"));
  EXPECT_EQ(run({"--nproc", "2", "--timeout", "50"}, script("exit 0")).exit_code, 0);
}

TEST_F(Launch, AProgramThatIsNotThereIsOneError) {
  const Ended missing = run({"--nproc", "4"}, {"no-such-program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.err, "troupe: cannot start no-such-program: No such file or directory (on localhost)\n");
  std::ofstream(path("text")) << "no program";
  const Ended text = run({"--nproc", "4"}, {path("text")});
  EXPECT_EQ(text.exit_code, 126);
  EXPECT_THAT(text.err, HasSubstr("Permission denied"));
  const Ended there = run({"--hosts", "alpha:2", "--ssh", kFakeSsh}, {"no-such-program"});
  EXPECT_EQ(there.exit_code, 127);
  EXPECT_THAT(there.err, HasSubstr("troupe: cannot start no-such-program: No such file or directory (on alpha)\n"));
}

// The tool inherits the limits of who starts it.
class OpenFiles {
 public:
  explicit OpenFiles(rlim_t soft) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{soft, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~OpenFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Launch, ASoftLimitOfOpenFilesIsRaisedAndTheRanksHaveTheirs) {
  const OpenFiles few(64);
  for (const Words& where : {Words{"--nproc", "40"}, Words{"--hosts", "alpha:40", "--ssh", kFakeSsh}}) {
    const Ended ended = run(where, {"sh", "-c", "ulimit -Sn"});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    if (where[0] == "--hosts") continue;  // there it is sshd that gives limits
    for (int rank = 0; rank < 40; ++rank) EXPECT_THAT(ended.out, HasSubstr("[" + std::to_string(rank) + "] 64\n"));
  }
}

TEST_F(Launch, TooFewOpenFilesAreRefusedWithTheLimitAndWhatIsNeeded) {
  const std::string tool = TROUPE_BINARY;
  const std::string command = "ulimit -n 64; exec " + tool + " launch --nproc 40 -- true";
  const std::string err = path("refused");
  const int status = std::system(("(" + command + ") 2> " + err).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(read_text(err), testing::ContainsRegex("^troupe: the hard limit of open files \\(RLIMIT_NOFILE\\) is 64, and these ranks need [0-9]+: raise it"));
  // As many as it asks for are enough.
  const std::string text = read_text(err);
  const std::string needed = std::to_string(std::atoi(text.substr(text.find("need ") + 5).c_str()));
  const std::string enough = "ulimit -n " + needed + "; exec " + tool + " launch --nproc 40 --log-dir " + path("logs") + " -- true";
  EXPECT_EQ(std::system(("(" + enough + ") 2>> " + err).c_str()), 0) << read_text(err);
}

TEST_F(Launch, RunsOnHostsOverSsh) {
  std::ofstream(path("hosts")) << "alpha slots=2  # the first\nbeta:1\n";
  for (const Words& hosts : {Words{"--hosts", "alpha:2,beta:1"}, Words{"--hostfile", path("hosts")}}) {
    Words options = hosts;
    options.insert(options.end(), {"--ssh", kFakeSsh, "--env", "MINE=a 'b' \"$c\""});
    const Ended ended = run(options, script("echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE \"$MINE\"; pwd\n"
                                            "case \"$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ')\" in "
                                            "*\"$TROUPE_SECRET\"*) echo the secret is in an argument;; esac"));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    for (const char* line : {"[0] 0 0 2 3 a 'b' \"$c\"", "[1] 1 1 2 3 a 'b' \"$c\"", "[2] 2 0 1 3 a 'b' \"$c\""})
      EXPECT_THAT(lines_of(ended.out), testing::Contains(line));
    EXPECT_THAT(ended.out, Not(HasSubstr("the secret")));
    // what the host's shell says is shown, as the host's
    EXPECT_THAT(ended.err, HasSubstr("[alpha] welcome to alpha\n"));
  }
}

TEST_F(Launch, RunsInTheSameFolderOverSsh) {
  EXPECT_EQ(run({"--hosts", "alpha", "--ssh", kFakeSsh}, {"pwd"}).out, "[0] " + fs::current_path().string() + "\n");
}

TEST_F(Launch, AFailureOnAHostNamesItAndEndsAll) {
  const Ended ended = run({"--hosts", "alpha:1,beta:1,localhost:1", "--ssh", kFakeSsh},
                          script("if [ $RANK != 1 ]; then\n" + std::string(kStubborn) +
                                 "\nfi\nuntil [ -e ready-0 -a -e ready-2 ]; do sleep 0.01; done\necho why >&2; kill -9 $$"));
  EXPECT_EQ(ended.exit_code, 137);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 on beta died of signal 9 (SIGKILL)"));
  EXPECT_EQ(lines_of(ended.err).back(), "[1] why");
}

TEST_F(Launch, AHostThatIsNotToBeHadEndsAll) {
  std::ofstream(path("ssh.sh")) << "#!/bin/sh\n[ $1 = beta ] && { echo no route to host >&2; exit 255; }\nexec "
                                << fs::absolute(kFakeSsh).string() << " \"$@\"\n";
  fs::permissions(path("ssh.sh"), fs::perms::owner_all);
  const Ended ended = run({"--hosts", "alpha:2,beta:1", "--ssh", path("ssh.sh")}, script("exec sleep 100"));
  EXPECT_EQ(ended.exit_code, 255);
  EXPECT_THAT(ended.err, HasSubstr("[beta] no route to host\n"));
  EXPECT_THAT(ended.err, HasSubstr("exited with code 255, with rank 2 (on beta)"));
}

TEST_F(Launch, ALostConnectionEndsTheHostsRanksAndTheJob) {
  std::ofstream(path("ssh.sh")) << "#!/bin/sh\nshift\necho $$ > " << path("ssh-pid")
                                << "\nexec 3<&0\nsetsid sh -c \"$*\" <&3 &\nwait\n";  // as behind a real one
  fs::permissions(path("ssh.sh"), fs::perms::owner_all);
  ToolProcess process(launch({"--hosts", "alpha:1,localhost:1", "--ssh", path("ssh.sh")}, script(kStubborn)), folder_);
  ASSERT_TRUE(all_ready(process, 2)) << process.err();
  EXPECT_TRUE(signal_process(std::atoi(read_text(path("ssh-pid")).c_str()), SIGKILL));
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 137);
  EXPECT_THAT(ended.err, HasSubstr("the connection was lost"));
  EXPECT_THAT(ended.err, HasSubstr("with rank 0 (on alpha)"));
  EXPECT_TRUE(all_gone());
}

// A cut link: what is sent there has no effect.
TEST_F(Launch, AHostThatDoesNotAnswerIsGivenUp) {
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = run({"--hosts", "alpha:1,localhost:1", "--ssh", kFakeSsh},
                          script("if [ $RANK = 0 ]; then kill -STOP $PPID; ready; exec sleep 100; fi\nuntil [ -e ready-0 ]; do sleep 0.01; done; exit 3"));
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_THAT(ended.err, HasSubstr("nothing was heard of it for 5 s, with rank 0 (on alpha)"));
}

TEST_F(Launch, ALinkThatIsCutEndsTheJobAndIsNamed) {
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = run({"--hosts", "alpha:1,localhost:1", "--ssh", kFakeSsh},
                          script("ready; if [ $RANK = 0 ]; then kill -STOP $PPID; fi; exec sleep 100"));
  EXPECT_EQ(ended.exit_code, 1) << ended.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_THAT(ended.err, HasSubstr("troupe: the link is cut or the host hangs: nothing was heard of it for 5 s, with rank 0 (on alpha)"));
  EXPECT_TRUE(all_gone());
}

TEST_F(Launch, AnotherProgramOnAHostIsRefusedAndBothAreNamed) {
  std::ofstream(path("ssh.sh")) << "#!/bin/sh\nprintf 'troupe agent 1\\n\\012\\000\\000\\000\\100\\005\\000\\000\\0009.9+x'\nexec cat > /dev/null\n";
  fs::permissions(path("ssh.sh"), fs::perms::owner_all);
  const Ended ended = run({"--hosts", "alpha", "--ssh", path("ssh.sh")}, {"true"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, testing::ContainsRegex("is 9.9\\+x there and [0-9.]+\\+[0-9a-f]+ here"));
}

// Ranks that join: JOIN_PROGRAM.
class LaunchJoin : public Launch {
 protected:
  Ended join(const Words& options, Words what) const {
    what.insert(what.begin(), JOIN_PROGRAM);
    return run(options, what);
  }
};

TEST_F(LaunchJoin, RanksMeet) {
  // two on alpha: through its relay
  for (const Words& where : {Words{"--nproc", "3"}, Words{"--hosts", "alpha:2,beta:1", "--ssh", kFakeSsh}}) {
    const Ended ended = join(where, {"meet"});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    for (const std::string rank : {"0", "1", "2"}) {
      EXPECT_THAT(lines_of(ended.out),
                  testing::Contains("[" + rank + "] troupe launch: rank " + rank + " of 3: address-0 address-1 address-2"));
    }
  }
}

// Who is stopped before it has joined has no heartbeats; its launcher, or the agent of its host, sees it.
TEST_F(LaunchJoin, ARankThatIsStoppedBeforeItHasJoinedEndsTheJobAndIsNamed) {
  for (const auto& [where, host] : {std::pair(Words{"--nproc", "3"}, "localhost"),
                                    std::pair(Words{"--hosts", "localhost:1,alpha:2", "--ssh", kFakeSsh}, "alpha")}) {
    const auto begin = std::chrono::steady_clock::now();
    const Ended ended = join(where, {"stop", "1"});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    EXPECT_NE(ended.exit_code, 0);
    const std::string why = "rank 1 on " + std::string(host) + " has not joined: its process is stopped\n";
    EXPECT_THAT(ended.err, HasSubstr("troupe: " + why));
    for (const char* other : {"[0]", "[2]"}) EXPECT_THAT(ended.err, HasSubstr(std::string(other) + " failed: " + why));
  }
}

TEST_F(LaunchJoin, ARankThatIsStoppedForAMomentJoins) {
  const Ended ended = join({"--nproc", "3"}, {"nap", "1"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
}

TEST_F(LaunchJoin, TheCauseThatARankSaidComesFirst) {
  const Ended ended = join({"--nproc", "4"}, {"abort", "2", "the disk is full"});
  EXPECT_EQ(ended.exit_code, 5) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("troupe: rank 2 ended the job: the disk is full\n"));
  EXPECT_THAT(ended.err, HasSubstr("troupe: rank 2 on localhost exited with code 5\n"));
  EXPECT_EQ(lines_of(ended.err).back(), "[2] I said it");
}

TEST_F(LaunchJoin, ARankThatEndsTheJobAndStaysIsStopped) {
  const Ended ended = join({"--nproc", "3"}, {"stuck", "1"});
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("troupe: rank 1 ended the job: no reason\n"));
}

TEST_F(LaunchJoin, ARankThatVanishesIsNamedAndFailsTheJob) {
  for (const Words& where : {Words{"--nproc", "3"}, Words{"--hosts", "alpha:2,beta:1", "--ssh", kFakeSsh}}) {
    const Ended ended = join(where, {"vanish", "1"});
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_THAT(ended.err, HasSubstr("troupe: rank 1 is gone"));
    EXPECT_THAT(ended.err, testing::ContainsRegex("\\[[02]\\] failed: rank 1 is gone"));
  }
}

TEST_F(LaunchJoin, ARankThatDoesNotComeIsNamed) {
  const Ended ended = join({"--nproc", "3"}, {"wait", "1"});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.err, HasSubstr("waited for the address of rank 1 of 3"));
}

// A command line of a shell, and whatever it writes.
Ended run_shell(const std::string& line) {
  Ended ended;
  FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  std::array<char, 4096> part;
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe)) ended.out.append(part.data(), count);
  const int status = pclose(pipe);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

TEST_F(LaunchJoin, RanksMeetUnderOpenMpi) {
  if (run_shell("command -v mpirun").exit_code != 0) GTEST_SKIP() << "skipped because there is no mpirun here";
  const Ended ended = run_shell("mpirun -n 3 --allow-run-as-root --oversubscribe " JOIN_PROGRAM " meet");
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  for (const std::string rank : {"0", "1", "2"})
    EXPECT_THAT(ended.out, HasSubstr("Open MPI: rank " + rank + " of 3: address-0 address-1 address-2\n"));
}

TEST_F(LaunchJoin, RanksMeetWithTorchrunsVariables) {
  const std::string port = std::to_string(20000 + getpid() % 10000);
  std::string line = "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port;
  line += "; RANK=1 LOCAL_RANK=1 " JOIN_PROGRAM " meet & RANK=0 LOCAL_RANK=0 " JOIN_PROGRAM " meet && wait $!";
  const Ended ended = run_shell("(" + line + ")");
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  for (const std::string rank : {"0", "1"})
    EXPECT_THAT(ended.out, HasSubstr("torchrun variables: rank " + rank + " of 2: address-0 address-1\n"));
}

// As srun -N2 torchrun sets them on the first of its nodes, which is all of the job here.
TEST_F(LaunchJoin, RanksMeetWithTorchrunInsideAStepOfSlurm) {
  const std::string port = std::to_string(20000 + (getpid() + 1) % 10000);
  std::string line = "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 TORCHELASTIC_RUN_ID=run TORCHELASTIC_RESTART_COUNT=0 MASTER_PORT=" + port;
  line += "; export SLURM_JOB_ID=42 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE='1(x2)'";
  line += " SLURM_STEP_NODELIST='n[1-2]'; RANK=1 LOCAL_RANK=1 " JOIN_PROGRAM " meet & RANK=0 LOCAL_RANK=0 " JOIN_PROGRAM " meet && wait $!";
  const Ended ended = run_shell("(" + line + ")");
  EXPECT_EQ(ended.exit_code, 0) << ended.out;
  for (const std::string rank : {"0", "1"})
    EXPECT_THAT(ended.out, HasSubstr("torchrun variables inside Slurm: rank " + rank + " of 2: address-0 address-1\n"));
}

TEST_F(LaunchJoin, OurLauncherCountsInsideAnother) {
  const Ended ended = join({"--nproc", "2", "--env", "OMPI_COMM_WORLD_RANK=7", "--env", "OMPI_COMM_WORLD_SIZE=8", "--env",
                            "OMPI_COMM_WORLD_LOCAL_RANK=7", "--env", "OMPI_COMM_WORLD_LOCAL_SIZE=8"},
                           {"meet"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("troupe launch inside Open MPI: rank 1 of 2: address-0 address-1\n"));
}

TEST_F(LaunchJoin, ContradictingLaunchersAreRefused) {
  const Ended ended = run_shell("TROUPE_RANK=0 TROUPE_WORLD_SIZE=2 TROUPE_LOCAL_RANK=0 TROUPE_LOCAL_WORLD_SIZE=2 TROUPE_STORE=127.0.0.1:1 TROUPE_SECRET=s "
                                "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " JOIN_PROGRAM " meet 2>&1");
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.out + ended.err, HasSubstr("RANK says 1"));
}

}  // namespace
}  // namespace troupe::test
