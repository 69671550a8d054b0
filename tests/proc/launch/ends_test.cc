// How a launched job ends: signals to the launcher, its own death, and what ranks leave running.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/proc/launch/launch_fixture.h"

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class LaunchEnds : public Launch {
 protected:
  // Two ranks here, and two on a host.
  const std::vector<Words> wheres_{{"--nproc", "2"}, {"--hosts", "alpha:2", "--ssh", kFakeSsh}};
  void forget_ranks() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (!entry.path().filename().string().starts_with("child")) fs::remove(entry.path());
    }
  }
  // A child in a session of its own that stays until a signal, with what else it does before.
  static std::string leave(const std::string& first = "") {
    return "setsid sh -c '" + first + "echo $$ > note-$RANK.pid; mv note-$RANK.pid $RANK-left.pid; while :; do sleep 1; done' &\nuntil [ -e $RANK-left.pid ]; do sleep 0.01; done\n";
  }
};

TEST_F(LaunchEnds, WhatARankLeavesInItsGroupEndsWithIt) {
  const Ended ended = run({}, script("sh -c 'echo $$ > note-0.pid; mv note-0.pid 0-child.pid; exec sleep 100' &\nuntil [ -e "
                                     "0-child.pid ]; do sleep 0.01; done"));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(pids().size(), 2u);
}

TEST_F(LaunchEnds, KilledItselfItLeavesNobody) {
  for (const Words& where : {Words{"--nproc", "3"}, Words{"--hosts", "alpha:2,localhost:1", "--ssh", kFakeSsh}}) {
    ToolProcess process(launch(where, script(kStubborn)), folder_);
    ASSERT_TRUE(all_ready(process, 3)) << process.err();
    EXPECT_EQ(pids().size(), 6u);
    process.signal(SIGKILL);
    process.wait();
    EXPECT_TRUE(all_gone());
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (!entry.path().filename().string().starts_with("child")) fs::remove(entry.path());
    }
  }
}


TEST_F(LaunchEnds, WhatARankLeavesInASessionOfItsOwnEndsWithTheJob) {
  for (const Words& where : wheres_) {
    for (const auto& [end, code] : {std::pair("exit 0", 0), std::pair("kill -9 $$", 137)}) {
      const Ended ended = run(where, script(leave() + "until [ -e 0-left.pid -a -e 1-left.pid ]; do sleep 0.01; done\n" + end));
      EXPECT_EQ(ended.exit_code, code) << ended.err;
      EXPECT_EQ(pids().size(), 4u);
      for (const pid_t pid : pids()) EXPECT_FALSE(is_alive(pid)) << "when the launcher had ended";
      EXPECT_THAT(ended.err, Not(HasSubstr("left running")));
      forget_ranks();
    }
  }
}

TEST_F(LaunchEnds, WhatIsLeftAndHeedsNoSigtermIsKilledAndNamed) {
  ToolProcess here(launch({}, script(leave("trap \"\" TERM; "))), folder_);
  const Ended there = run({"--hosts", "alpha", "--ssh", kFakeSsh}, {"sh", "-c", "cd " + folder_ + "; export RANK=there\n" + leave("trap \"\" TERM; ")});
  EXPECT_EQ(there.exit_code, 0);
  EXPECT_THAT(there.err, testing::ContainsRegex("\\[alpha\\] left running by ranks, not ended by SIGTERM and killed: .*sh \\([0-9]+\\)"));
  EXPECT_EQ(here.wait().exit_code, 0);
  EXPECT_THAT(here.wait().err, testing::ContainsRegex("\\[localhost\\] left running by ranks, not ended by SIGTERM and killed: .*sh \\([0-9]+\\)"));
  EXPECT_EQ(pids().size(), 3u);
  for (const pid_t pid : pids()) EXPECT_FALSE(is_alive(pid));
}

TEST_F(LaunchEnds, KilledItselfItLeavesNobodyInASessionOfItsOwn) {
  for (const Words& where : wheres_) {
    ToolProcess process(launch(where, script(leave("trap \"\" TERM; ") + "ready\nexec sleep 100")), folder_);
    ASSERT_TRUE(all_ready(process, 2)) << process.err();
    EXPECT_EQ(pids().size(), 4u);
    process.signal(SIGKILL);
    process.wait();
    EXPECT_TRUE(all_gone());
    forget_ranks();
  }
}

TEST_F(LaunchEnds, AnAgentThatIsKilledLeavesNobody) {
  const Ended ended = run({"--hosts", "alpha:1", "--ssh", kFakeSsh}, script(leave("trap \"\" TERM; ") + "kill -9 $PPID\nexec sleep 100"));
  EXPECT_EQ(ended.exit_code, 137);
  EXPECT_THAT(ended.err, HasSubstr("the connection was lost"));
  EXPECT_EQ(pids().size(), 2u);
  EXPECT_TRUE(all_gone());
}

TEST_F(LaunchEnds, WhatAnotherJobLeavesIsLeftAlone) {
  ToolProcess other(launch({}, script(leave() + "ready\nexec sleep 100")), folder_);
  ASSERT_TRUE(all_ready(other, 1)) << other.err();
  const pid_t left = std::atoi(read_text(path("0-left.pid")).c_str());
  EXPECT_EQ(run({"--nproc", "2"}, {"setsid", "sh", "-c", "sleep 100 & exit 0"}).exit_code, 0);
  EXPECT_TRUE(is_alive(left));
  other.signal(SIGTERM);
  EXPECT_EQ(other.wait().exit_code, 143);
  EXPECT_FALSE(is_alive(left));
}

TEST_F(LaunchEnds, TheEndsOfOrphansAreTakenAndRanksKeepTheirs) {
  for (const Words& where : wheres_) {
    ToolProcess process(launch(where, script("sh -c 'setsid sh -c \"echo \\$\\$ > note-$RANK.pid; mv note-$RANK.pid $RANK-orphan.pid\" &'\n"
                                             "until [ -e $RANK-orphan.pid ]; do sleep 0.01; done\nready\nuntil [ -e go ]; do sleep 0.01; done\n"
                                             "for i in 1 2 3 4 5 6 7 8; do sh -c 'setsid true &'; done; [ $RANK = 0 ] || exit 7")),
                        folder_);
    ASSERT_TRUE(all_ready(process, 2)) << process.err();
    for (const char* orphan : {"0-orphan.pid", "1-orphan.pid"}) {
      const std::string pid = std::to_string(std::atoi(read_text(path(orphan)).c_str()));
      EXPECT_TRUE(wait_until([&] { return !fs::exists("/proc/" + pid); }, 10s)) << "a zombie";
    }
    std::ofstream(path("go")) << "go";
    EXPECT_EQ(process.wait().exit_code, 7) << process.err();
    forget_ranks();
  }
}

TEST_F(LaunchEnds, TheSecondSignalToEndKills) {
  for (const Words& where : wheres_) {
    for (const auto& [first, second] : {std::pair(SIGTERM, SIGTERM), std::pair(SIGINT, SIGINT), std::pair(SIGTERM, SIGINT)}) {
      ToolProcess process(launch(where, script(kStubborn)), folder_);
      ASSERT_TRUE(all_ready(process, 2)) << process.err();
      process.signal(first);
      EXPECT_TRUE(wait_until([&] {
        process.signal(second);
        return process.err().find("troupe: a second signal to end, SIG") != std::string::npos;
      }));
      const auto begin = std::chrono::steady_clock::now();
      const Ended& ended = process.wait();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
      EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
      EXPECT_THAT(ended.err, HasSubstr("ranks 0, 1 did not end and are killed"));
      EXPECT_TRUE(all_gone());
      forget_ranks();
    }
  }
}

// A program may take its second signal as "now", as troupe train does.
TEST_F(LaunchEnds, TheSecondSignalIsPassedOnFirst) {
  ToolProcess process(launch({"--nproc", "2"}, script("trap 'n=$((n+1)); : > heard-$RANK-$n' TERM; n=0; ready; until [ $n = 2 ]; do sleep 0.01; done; exit 3")), folder_);
  ASSERT_TRUE(all_ready(process, 2)) << process.err();
  process.signal(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("heard-0-1")) && fs::exists(path("heard-1-1")); }));
  ASSERT_TRUE(wait_until([&] {
    process.signal(SIGTERM);
    return !process.running() || process.err().find("a second signal") != std::string::npos;
  }));
  EXPECT_EQ(process.wait().exit_code, 3);
}

// A job's checkpoint may take longer than what is left to the others after a failure.
TEST_F(LaunchEnds, TheFirstSignalSetsNoDeadline) {
  ToolProcess process(launch({"--nproc", "2"}, script("trap 'n=1' TERM; n=0; ready; until [ $n = 1 ]; do sleep 0.01; done; sleep 6; echo saved")), folder_);
  ASSERT_TRUE(all_ready(process, 2)) << process.err();
  process.signal(SIGTERM);
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(lines_of(ended.out), testing::UnorderedElementsAre("[0] saved", "[1] saved"));
  EXPECT_THAT(ended.err, Not(HasSubstr("killed")));
}

// timeout(1) signals its child, and at once the child's group.
TEST_F(LaunchEnds, TwoSignalsAtOnceAreOneRequest) {
  ToolProcess process(launch({"--nproc", "2"}, script("trap 'n=$((n+1))' INT TERM; n=0; ready; until [ $n -gt 0 ]; do sleep 0.01; done; sleep 1.5; echo saved $n")),
                      folder_);
  ASSERT_TRUE(all_ready(process, 2)) << process.err();
  process.signal(SIGTERM);
  process.signal(SIGINT);
  const Ended& ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(lines_of(ended.out), testing::UnorderedElementsAre("[0] saved 1", "[1] saved 1"));
}

TEST_F(LaunchEnds, ASignalToEndWhileSshConnectsEndsItAtOnce) {
  std::ofstream(path("ssh.sh")) << "#!/bin/sh\necho $$ > " << path("note") << "; mv " << path("note") << " " << path("ssh.pid") << "\nsleep 1000 & sleep 1000\n";
  fs::permissions(path("ssh.sh"), fs::perms::owner_all);
  for (const auto& [name, number] : {std::pair("SIGINT", SIGINT), std::pair("SIGTERM", SIGTERM)}) {
    for (const std::string hosts : {"alpha:2", "localhost:1,alpha:2"}) {
      ToolProcess process(launch({"--hosts", hosts, "--ssh", path("ssh.sh")}, {"sleep", "100"}), folder_);
      ASSERT_TRUE(wait_until([&] { return fs::exists(path("ssh.pid")); }));
      const auto begin = std::chrono::steady_clock::now();
      process.signal(number);
      const Ended& ended = process.wait();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
      EXPECT_EQ(ended.exit_code, 128 + number) << ended.err;
      EXPECT_EQ(ended.err, std::string("troupe: ") + name + " came before host alpha had answered: the job ends\n");
      for (const pid_t pid : pids()) EXPECT_FALSE(is_alive(pid)) << "ssh is left";
      fs::remove(path("ssh.pid"));
    }
  }
}

// As nohup has it. A shell traps nothing that is ignored when it starts.
TEST_F(LaunchEnds, ASignalThatIsIgnoredIsNotPassedOn) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  Words program = script("trap 'echo heard' HUP; trap 'exit 0' USR1; ready; while :; do sleep 0.01; done");
  program.insert(program.begin(), {"env", "--default-signal=HUP"});
  ToolProcess process(launch({}, program), folder_);
  std::signal(SIGHUP, before);
  ASSERT_TRUE(all_ready(process, 1)) << process.err();
  process.signal(SIGHUP);
  process.signal(SIGUSR1);
  EXPECT_EQ(process.wait().exit_code, 0);
  EXPECT_EQ(process.wait().out, "");
}

}  // namespace
}  // namespace troupe::test
