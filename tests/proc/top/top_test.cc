// `troupe top` of real jobs, on terminals of several sizes.
#include <regex>

#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/top/tmux.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

const std::string kTopOf = std::string(TROUPE_BINARY) + " top";

class Top : public Inspect {
 protected:
  std::vector<std::string> endless() const {
    return launched(run_, 2, "job", {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=20"});
  }
  std::string output() const { return run_.output("job"); }
  TinyRun run_;
};

std::size_t widest_line(const std::string& screen) {
  std::size_t widest = 0;
  const std::vector<std::string> lines = absl::StrSplit(screen, '\n');
  for (const auto& line : lines) widest = std::max(widest, line.size());
  return widest;
}

TEST_F(Top, ShowsACircleOnScreensOfEverySize) {
  ToolProcess job({"launch", "--nproc", "2", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(2)) << job.err();
  const TerminalRun run(folder(), 80, 24, kTopOf);
  const Tmux& tmux = run.tmux();
  ASSERT_TRUE(tmux.shows("1 CIRCLE")) << tmux.screen();
  for (const char* text : {"[actors] by depth", "waits for credit green.in", "q quit"}) EXPECT_TRUE(tmux.shows(text)) << tmux.screen();
  tmux.type({"1"});
  EXPECT_TRUE(tmux.shows(" answers")) << tmux.screen();
  tmux.type({"3"});
  EXPECT_TRUE(tmux.shows("0/1!")) << tmux.screen();
  tmux.type({"4"});
  EXPECT_TRUE(tmux.shows("a cycle of 3")) << tmux.screen();
  for (const char* text : {"rank 0 red waits for", "rank 1 blue waits for"}) EXPECT_TRUE(tmux.shows(text)) << tmux.screen();

  tmux.type({"2"});
  ASSERT_TRUE(tmux.shows("[2 actors]"));
  tmux.type({"/", "green", "Enter"});
  EXPECT_TRUE(tmux.shows(" /green")) << tmux.screen();
  EXPECT_TRUE(tmux.hides("supervisor")) << tmux.screen();
  tmux.type({"Escape"});
  EXPECT_TRUE(tmux.shows("supervisor")) << tmux.screen();
  tmux.type({"/", "blue", "Enter", "End", "Enter"});
  EXPECT_TRUE(tmux.shows("handled + ")) << tmux.screen();
  tmux.type({"Escape", "Escape"});

  tmux.resize(200, 50);
  EXPECT_TRUE(tmux.shows("GROWTH/S")) << tmux.screen();
  EXPECT_TRUE(tmux.shows("waits for credit green-blue@1.in")) << tmux.screen();
  tmux.resize(40, 12);
  EXPECT_TRUE(wait_until([&] { return tmux.screen().find("GROWTH/S") == std::string::npos && widest_line(tmux.screen()) <= 40; })) << tmux.screen();
  for (const char* text : {"RANK ACTOR", "waits for credit", "q quit"}) EXPECT_TRUE(tmux.shows(text)) << tmux.screen();
  tmux.type({"4"});
  EXPECT_TRUE(tmux.shows("a cycle of 3")) << tmux.screen();
  tmux.resize(10, 3);
  EXPECT_TRUE(tmux.shows("too small")) << tmux.screen();
  tmux.resize(80, 24);
  EXPECT_TRUE(tmux.shows("none of these can go on")) << tmux.screen();
  tmux.type({"q"});
  run.expect_terminal_as_it_was("after all");
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(Top, ShowsATrainingAndWhoIsSilentInIt) {
  ToolProcess job(endless(), folder());
  ASSERT_TRUE(wait_until([&] { return steps_of(output()).size() >= 2 || !job.running(); }) && job.running()) << job.err();
  const TerminalRun run(folder(), 80, 24, kTopOf);
  const Tmux& tmux = run.tmux();
  ASSERT_TRUE(tmux.shows("2 ranks answer")) << tmux.screen();
  EXPECT_TRUE(tmux.shows("/1000000  loss ")) << tmux.screen();
  EXPECT_TRUE(tmux.shows(" tok/s")) << tmux.screen();
  tmux.type({"N", "/", "ledger", "Enter"});
  EXPECT_TRUE(tmux.shows("0 ledger")) << tmux.screen();
  EXPECT_TRUE(wait_until([&] { return std::regex_search(tmux.screen(), std::regex("0 ledger .* [0-9.]+ .*%")); })) << tmux.screen();  // handled a second
  tmux.type({"Enter"});
  EXPECT_TRUE(tmux.shows("0/ledger: ")) << tmux.screen();
  EXPECT_TRUE(tmux.shows("MESSAGE ")) << tmux.screen();
  tmux.type({"Escape", "Escape", "1"});
  ASSERT_TRUE(signal_process(pid_of_rank(output(), 1), SIGSTOP));
  EXPECT_TRUE(tmux.shows("1 SILENT")) << tmux.screen();
  EXPECT_TRUE(tmux.shows("no answer")) << tmux.screen();
  ASSERT_TRUE(signal_process(pid_of_rank(output(), 1), SIGCONT));
  EXPECT_TRUE(tmux.shows("2 ranks answer")) << tmux.screen();

  tmux.type({"p"});
  EXPECT_TRUE(tmux.shows("PAUSED")) << tmux.screen();
  for (const int rank : {0, 1}) ASSERT_TRUE(signal_process(pid_of_rank(output(), rank), SIGSTOP));
  EXPECT_TRUE(tmux.shows("NO ANSWER for")) << tmux.screen();
  tmux.type({"2"});  // keys are heard all the same
  EXPECT_TRUE(tmux.shows("[2 actors]")) << tmux.screen();
  tmux.type({"q"});
  run.expect_terminal_as_it_was("with a job that says nothing");
  for (const int rank : {0, 1}) ASSERT_TRUE(signal_process(pid_of_rank(output(), rank), SIGCONT));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

}  // namespace
}  // namespace troupe::test
