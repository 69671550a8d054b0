// The terminal is as it was, however `troupe top` ends.
#include <csignal>

#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/top/tmux.h"

namespace troupe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kTop = std::string(TROUPE_BINARY) + " top";

using TopTerminal = Inspect;

TEST_F(TopTerminal, IsAsItWasAfterEachWayOfEnding) {
  ToolProcess job({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  struct Way {
    std::string name, code, key;
    int signal = 0;
  };
  for (const Way& way : std::vector<Way>{{"q", "0", "q"}, {"Ctrl-C", "0", "C-c"}, {"SIGTERM", "143", "", SIGTERM}, {"SIGHUP", "129", "", SIGHUP}, {"SIGINT", "0", "", SIGINT}, {"Ctrl-backslash", "131", "C-\\"}}) {
    const TerminalRun run(folder(), 80, 24, kTop);
    ASSERT_TRUE(run.tmux().shows("waits for credit")) << way.name << run.tmux().screen();
    EXPECT_EQ(run.tmux().drawn_on(), "1 0") << way.name;
    if (way.signal != 0) ASSERT_TRUE(signal_process(run.pid(), way.signal));
    else run.tmux().type({way.key});
    run.expect_terminal_as_it_was(way.name);
    EXPECT_EQ(run.code(), way.code) << way.name;
    EXPECT_THAT(run.tmux().screen(), testing::AllOf(HasSubstr("above"), Not(HasSubstr("troupe top")))) << way.name;
  }
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(TopTerminal, IsAsItWasAfterABreakdown) {
  for (const auto& [how, said] : std::vector<std::pair<std::string, std::string>>{{"exception", "an exception that nobody takes"}, {"check", "a check that fails"}, {"access", "said meanwhile"}, {"none", "said meanwhile"}}) {
    const TerminalRun run(folder(), 200, 24, std::string(BREAKING_SCREEN) + " " + how);
    ASSERT_TRUE(run.tmux().shows("drawn")) << how;
    EXPECT_THAT(run.tmux().screen(), Not(HasSubstr("said meanwhile"))) << how;
    run.tmux().type({"x"});
    run.expect_terminal_as_it_was(how);
    EXPECT_EQ(run.code(), how == "none" ? "0" : how == "access" ? "139" : "134") << how;
    EXPECT_TRUE(run.tmux().shows(said)) << how << run.tmux().screen();
    EXPECT_THAT(run.tmux().screen(), Not(HasSubstr("drawn"))) << how;
  }
}

TEST_F(TopTerminal, KeepsTheLastPictureOfAJobThatHasEnded) {
  ToolProcess job({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  const TerminalRun run(folder(), 80, 24, kTop);
  ASSERT_TRUE(run.tmux().shows("waits for credit")) << run.tmux().screen();
  job.signal(SIGTERM);
  job.wait();
  ASSERT_TRUE(run.tmux().shows("THE JOB HAS ENDED")) << run.tmux().screen();
  EXPECT_THAT(run.tmux().screen(), HasSubstr("waits for credit"));
  run.tmux().resize(100, 30);  // is no key
  EXPECT_TRUE(run.tmux().shows("GROWTH/S") && run.tmux().shows("THE JOB HAS ENDED")) << run.tmux().screen();
  run.tmux().type({"Down"});
  run.expect_terminal_as_it_was("the job's end");
  EXPECT_EQ(run.code(), "0");
}

TEST_F(TopTerminal, IsGivenToTheShellWhileTopIsStopped) {
  ToolProcess job({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  const Tmux tmux(folder(), 80, 24, {"bash", "--norc", "--noprofile", "-i"});
  const auto settings = [&](const std::string& name) {
    tmux.type({"stty -g > " + folder() + "/" + name, "Enter"});
    EXPECT_TRUE(wait_until([&] { return read_text(folder() + "/" + name).ends_with("\n"); }));
    return read_text(folder() + "/" + name);
  };
  const std::string before = settings("one");
  tmux.type({kTop, "Enter"});
  for (const std::string name : {"two", "three"}) {
    ASSERT_TRUE(tmux.shows("waits for credit")) << tmux.screen();
    tmux.type({"C-z"});
    ASSERT_TRUE(tmux.shows("Stopped")) << tmux.screen();
    EXPECT_EQ(tmux.drawn_on(), "0 1");
    EXPECT_EQ(settings(name), before);
    tmux.type({"clear; fg", "Enter"});
  }
  ASSERT_TRUE(tmux.shows("waits for credit")) << tmux.screen();
  tmux.type({"q"});
  EXPECT_TRUE(wait_until([&] { return tmux.drawn_on() == "0 1"; }));
  EXPECT_EQ(settings("four"), before);
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(TopTerminal, EndsWithItsTerminal) {
  ToolProcess job({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  const TerminalRun run(folder(), 80, 24, kTop);
  ASSERT_TRUE(run.tmux().shows("waits for credit")) << run.tmux().screen();
  const std::string process = "/proc/" + std::to_string(run.pid());
  run.tmux().close();
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(process); }, std::chrono::seconds(20)));
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(TopTerminal, OneThatCannotBeDrawnOnIsAnError) {
  ToolProcess job({"launch", "--nproc", "1", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  const Ended none = tool({"top"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("troupe: top: a whole screen needs a terminal"));
  EXPECT_EQ(std::ranges::count(none.err, '\n'), 1);
  for (const auto& [term, said] : std::vector<std::pair<std::string, std::string>>{{"dumb", "TERM=dumb cannot place text"}, {"nonesuch", "nothing is known of the terminal TERM=nonesuch"}}) {
    const TerminalRun run(folder(), 80, 24, "env TERM=" + term + " " + kTop);
    run.expect_terminal_as_it_was(term);
    EXPECT_EQ(run.code(), "2") << term;
    EXPECT_TRUE(run.tmux().shows(said)) << run.tmux().screen();
  }
  job.signal(SIGTERM);
  job.wait();
  EXPECT_THAT(tool({"top"}).err, HasSubstr("no job of this user runs"));
}

}  // namespace
}  // namespace troupe::test
