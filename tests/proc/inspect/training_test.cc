// Looking into training by two processes, also when one of them is stopped or killed.
#include "actors/inspect/http.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class InspectTraining : public Inspect {
 protected:
  // That goes on until somebody ends it.
  std::vector<std::string> endless(int ranks) const {
    return launched(run_, ranks, "job", {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=20"});
  }
  // Its two ranks without a launcher.
  std::vector<std::string> endless_in_one_process() const {
    auto words = endless(2);
    words.erase(words.begin(), words.begin() + 5);  // launch --nproc 2 -- BINARY
    return words;
  }
  std::string output() const { return run_.output("job"); }
  bool trains(ToolProcess& job) const {
    return wait_until([&] { return steps_of(output()).size() >= 2 || !job.running(); }) && job.running();
  }
  pid_t pid_of(int rank) const { return pid_of_rank(output(), rank); }

  TinyRun run_;
};

std::vector<std::string> names_in(const json& answer, int rank) {
  std::vector<std::string> names;
  for (const auto& row : answer.value("actors", json::array())) {
    if (row["rank"] == rank) names.push_back(row["name"]);
  }
  return names;
}

TEST_F(InspectTraining, SaysHowOftenEachRankWasStartedAgain) {
  auto words = endless(2);
  words.insert(words.begin() + 1, {"--env", "SLURM_RESTART_COUNT=2"});
  ToolProcess job(words, folder());
  ASSERT_TRUE(trains(job)) << job.err();
  for (const auto& rank : json_of({"inspect", "job", "--json"})["ranks"]) EXPECT_EQ(rank["restarts"], 2) << rank;
  EXPECT_THAT(tool({"inspect", "job"}).out, HasSubstr("RESTARTS"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(std::chrono::seconds(60)).exit_code, 0);
}

TEST_F(InspectTraining, ShowsTheActorsOfAllRanks) {
  ToolProcess job(endless(2), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const json all = json_of({"inspect", "actors", "--json"});
  EXPECT_EQ(all["unanswered"], json::array());
  EXPECT_THAT(names_in(all, 0), testing::IsSupersetOf({"ledger", "replica"}));
  EXPECT_THAT(names_in(all, 1), testing::Contains("replica"));
  EXPECT_THAT(names_in(all, 1), testing::Not(testing::Contains("ledger")));
  for (const auto& row : all["actors"]) EXPECT_EQ(row["sent"], row["handled"].get<int>() + row["dead"].get<int>() + row["depth"].get<int>()) << row;
  const json of_one = json_of({"inspect", "actors", "--rank", "1", "--json", "--top", "busy"});
  EXPECT_THAT(names_in(of_one, 0), testing::IsEmpty());
  const auto& busiest = of_one["actors"];
  ASSERT_GE(busiest.size(), 2u);
  EXPECT_GE(busiest.front()["handling_s"].get<double>(), busiest.back()["handling_s"].get<double>());
  EXPECT_EQ(json_of({"inspect", "mailbox", "1/replica", "--json"})["actor"]["rank"], 1);

  const json whole = json_of({"inspect", "job", "--json"});
  EXPECT_GT(whole["training"]["loss"].get<double>(), 0) << whole;
  EXPECT_GE(whole["training"]["step"], 2);
  EXPECT_EQ(whole["training"]["steps"], 1'000'000);
  for (const auto& rank : whole["ranks"]) EXPECT_GT(rank["memory_peak_bytes"], 1 << 20);
  EXPECT_THAT(tool({"inspect", "job"}).out, testing::AllOf(HasSubstr(": loss "), HasSubstr("goodput ")));

  const json config = json_of({"inspect", "config", "--json"});
  EXPECT_EQ(config["config"]["training"]["steps"], 1'000'000) << config;
  EXPECT_EQ(config["config"]["job"]["output"], output());
  EXPECT_THAT(config["plan"].get<std::string>(), HasSubstr("parameters"));
  EXPECT_THAT(tool({"inspect", "config"}).out, testing::AllOf(HasSubstr("[training]\n"), HasSubstr("\nsteps = 1000000\n"), HasSubstr("model   ")));
  const auto metrics = actors::http_get({.socket = runtime() + "/" + whole["job"].get<std::string>() + ".1.sock"}, "/metrics", std::chrono::seconds(20));
  ASSERT_TRUE(metrics.ok()) << metrics.status();  // also of a rank that has no ledger
  for (const char* series : {"\ntroupe_loss ", "\ntroupe_memory_bytes{rank=\"0\"} ", "\ntroupe_rank_up{rank=\"1\"} 1\n", "troupe_step_duration_seconds_bucket{le=\"+Inf\"} "})
    EXPECT_THAT(*metrics, HasSubstr(series));

  for (const char* view : {"job", "actors", "edges", "waits", "collectives"}) {
    const Ended ended = tool({"inspect", view});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    std::istringstream lines(ended.out);
    for (std::string line; std::string(view) != "waits" && std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
  const Ended ambiguous = tool({"inspect", "mailbox", "replica"});
  EXPECT_EQ(ambiguous.exit_code, 2);
  EXPECT_THAT(ambiguous.err, HasSubstr("say one of 0/replica, 1/replica"));
  EXPECT_THAT(tool({"inspect", "mailbox", "nobody"}).err, HasSubstr("there is no actor nobody"));
  EXPECT_THAT(tool({"inspect", "actors", "--rank", "2"}).err, HasSubstr("which has 0 to 1"));
  const json row = jobs().at(0);
  EXPECT_EQ(row["output"], output());
  EXPECT_EQ(row["world"], 2);
  EXPECT_EQ(row["pid"], pid_of(0));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
  EXPECT_EQ(files(), 0u);
}

TEST_F(InspectTraining, RanksInOneProcessAreShownToo) {
  ToolProcess job(endless_in_one_process(), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const json all = json_of({"inspect", "actors", "--json"});
  for (const int rank : {0, 1}) EXPECT_THAT(names_in(all, rank), testing::Contains("replica")) << rank;
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

TEST_F(InspectTraining, AStoppedRankIsNamedByTheOther) {
  ToolProcess job(endless(2), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  for (const int stopped : {1, 0}) {
    const pid_t pid = pid_of(stopped);
    ASSERT_TRUE(signal_process(pid, SIGSTOP));
    const json seen = json_of({"inspect", "actors", "--json", "--patience", "0.5"});
    ASSERT_TRUE(signal_process(pid, SIGCONT));
    ASSERT_EQ(seen.value("unanswered", json::array()).size(), 1u) << seen.dump();
    EXPECT_EQ(seen["unanswered"][0]["rank"], stopped);
    EXPECT_THAT(seen["unanswered"][0]["error"].get<std::string>(), HasSubstr("no answer"));
    EXPECT_THAT(names_in(seen, 1 - stopped), testing::Contains("replica"));
  }
  // The tool asks processes that can answer, and says so where none can.
  for (const int rank : {0, 1}) ASSERT_TRUE(signal_process(pid_of(rank), SIGSTOP));
  const Ended none = tool({"inspect", "actors"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("stopped?"));
  EXPECT_EQ(jobs().size(), 1u);  // it is there, all the same
  for (const int rank : {0, 1}) ASSERT_TRUE(signal_process(pid_of(rank), SIGCONT));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

TEST_F(InspectTraining, WhatTheDeadHaveLeftIsRemovedByTheirLauncher) {
  ToolProcess job(endless(2), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  EXPECT_EQ(files(), 6u);  // of each its card, its socket, its token
  ASSERT_TRUE(signal_process(pid_of(1), SIGKILL));
  EXPECT_NE(job.wait().exit_code, 0);
  EXPECT_EQ(files(), 0u);
}

TEST_F(InspectTraining, WhatTheDeadHaveLeftIsRemovedByWhoeverLooks) {
  ToolProcess job(endless_in_one_process(), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  job.signal(SIGKILL);
  EXPECT_NE(job.wait().exit_code, 0);
  EXPECT_EQ(files(), 3u);  // nobody has looked yet
  EXPECT_EQ(jobs().size(), 0u);
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace troupe::test
