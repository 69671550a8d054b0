// Recording what a running job does, and looking at the last events of one actor.
#include <fstream>
#include <set>
#include <thread>

#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/inspect/perfetto_rules.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class InspectTrace : public Inspect {
 protected:
  std::vector<std::string> stages_in_two_processes() const {
    return launched(run_, 2, "job", {"--parallelism.data_parallel=1", "--parallelism.pipeline=2", "--training.steps=1000000", "--lr_scheduler.total_steps=1000000",
                                     "--job.heartbeat_timeout_s=20"});
  }
  bool trains(ToolProcess& job) const {
    return wait_until([&] { return steps_of(run_.output("job")).size() >= 2 || !job.running(); }) && job.running();
  }
  Json recorded(const std::string& file, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"trace", "--steps", "3", "--out", file};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = tool(words);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    said_ = ended.out;
    return Json::parse(read_text(file), nullptr, false);
  }
  std::string file() const { return folder() + "/tr\"\xc3\xa4" "ce.json"; }

  TinyRun run_;
  mutable std::string said_;
};

std::set<std::string> names_of(const Json& trace, const std::string& phase, int rank) {
  std::set<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == phase && event["pid"] == rank) names.insert(event["name"] == "thread_name" ? event["args"]["name"] : event["name"]);
  }
  return names;
}

TEST_F(InspectTrace, IsAFileThatAViewerTakes) {
  ToolProcess job(stages_in_two_processes(), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const Json trace = recorded(file());
  ASSERT_TRUE(trace.is_object());
  EXPECT_THAT(broken_trace_rules(trace), IsEmpty());
  for (const int rank : {0, 1}) {
    EXPECT_THAT(names_of(trace, "M", rank), testing::IsSupersetOf({"process_name", "stream compute", "device", rank == 0 ? "stage-0" : "stage-1"}));
  }
  // Each rank's own blocks, by name.
  EXPECT_THAT(names_of(trace, "X", 0), testing::IsSupersetOf({"forward block 1", "input gradient block 1", "weight gradient block 1", "update block 1", "Activation"}));
  EXPECT_THAT(names_of(trace, "X", 1), testing::IsSupersetOf({"forward block 3", "loss block 5", "update block 5", "Activation"}));
  EXPECT_THAT(names_of(trace, "X", 1), testing::Not(testing::Contains("forward block 1")));
  EXPECT_THAT(names_of(trace, "C", 0), testing::Contains("mailbox stage-0"));
  std::map<int, int> crossed;  // arrows that end in a rank and began in the other
  std::map<int, Json> starts;
  int within = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "s") starts[event["id"]] = event;
    if (event["ph"] != "f") continue;
    if (starts[event["id"]]["pid"] == event["pid"]) ++within;
    else ++crossed[event["pid"]];
  }
  EXPECT_GT(within, 10);
  EXPECT_GT(crossed[1], 2) << "activations";
  EXPECT_GT(crossed[0], 2) << "gradients";
  // At least those it was asked for: these steps take milliseconds.
  EXPECT_THAT(said_, testing::ContainsRegex("of 2 ranks, ([3-9]|[0-9][0-9]+) whole steps"));
  // Three whole steps of each stream.
  std::map<int, std::set<int>> steps;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["name"] == "update block 1") steps[event["pid"]].insert(event["args"]["step"].get<int>());
  }
  EXPECT_GE(steps[0].size(), 3u);
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
  EXPECT_THAT(tool({"trace", "--out", file()}).err, HasSubstr("no job of this user runs"));
}

TEST_F(InspectTrace, OfAProgramWithoutStepsLastsAsLongAsItWasAsked) {
  ToolProcess job({"launch", "--nproc", "2", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(2)) << job.err();
  const Json trace = recorded(file(), {"--seconds", "1", "--last", "3600"});
  EXPECT_THAT(broken_trace_rules(trace), IsEmpty());
  EXPECT_THAT(names_of(trace, "X", 0), testing::Contains("Token")) << "what went before it got stuck";
  EXPECT_THAT(names_of(trace, "M", 0), testing::IsSupersetOf({"red", "green"}));
  EXPECT_THAT(names_of(trace, "M", 1), testing::Contains("blue"));
  const Ended nowhere = tool({"trace", "--seconds", "1", "--out", folder() + "/none/trace.json"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write"));
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(InspectTrace, PeekShowsTheLastEventsOfAnActorThatIsStuck) {
  ToolProcess job({"launch", "--nproc", "2", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(2)) << job.err();
  // Its token has come, and the next one has no credit.
  ASSERT_TRUE(wait_until([&] { return json_of({"inspect", "peek", "0/red", "--json"}).value("actor", Json::object()).value("state", "") == "waiting_for_credit"; }));
  const Json red = json_of({"inspect", "peek", "red", "--json"});
  EXPECT_EQ(red["lost"], 0);
  std::vector<std::string> texts;
  for (const auto& event : red["events"]) {
    texts.push_back(event["text"]);
    EXPECT_GE(event["age_s"], 0) << event;
  }
  EXPECT_THAT(texts, testing::IsSupersetOf({"Token", "waiting for credit of green.in"}));
  const Ended text = tool({"inspect", "peek", "1/blue"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("handled Token"));
  EXPECT_THAT(tool({"inspect", "peek", "nobody"}).err, HasSubstr("there is no actor nobody"));
  EXPECT_THAT(tool({"inspect", "peek"}).err, HasSubstr("whose peek?"));
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(InspectTrace, PeekCountsWhatItLost) {
  ToolProcess job(stages_in_two_processes(), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  Json device;
  ASSERT_TRUE(wait_until([&] { return (device = json_of({"inspect", "peek", "0/device", "--json"})).value("lost", 0) > 0; }));
  EXPECT_GT(device["events"].size(), 100u);
  EXPECT_THAT(device["actor"]["rank"], 0);
  EXPECT_THAT(tool({"inspect", "peek", "device"}).err, HasSubstr("say one of 0/device, 1/device"));
  const Json streams = json_of({"inspect", "compute", "--json"});
  ASSERT_EQ(streams["ranks"].size(), 2u);
  for (const auto& rank : streams["ranks"]) EXPECT_GT(rank["step_busy_s"].get<double>(), 0) << rank;
  EXPECT_TRUE(streams["straggler"].is_null()) << "ranks with other stages are no equals: " << streams;
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

// Half of the time it stands still, as on a processor that others use, too. CASES T34.
TEST_F(InspectTrace, NamesARankThatComputesSlowly) {
  ToolProcess job(launched(run_, 2, "job", {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=20"}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t slow = pid_of_rank(run_.output("job"), 1);
  ASSERT_GT(slow, 0);
  std::atomic<bool> done{false};
  std::thread braking([&] {
    for (bool stands = false; !done; stands = !stands) {
      signal_process(slow, stands ? SIGCONT : SIGSTOP);
      wait_until([&] { return done.load(); }, stands ? std::chrono::milliseconds(2) : std::chrono::milliseconds(20));
    }
    signal_process(slow, SIGCONT);
  });
  Json seen;
  const bool named = wait_until([&] {
    seen = json_of({"inspect", "compute", "--json", "--patience", "3"});
    return seen.contains("straggler") && seen["straggler"].is_object() && seen["straggler"]["rank"] == 1 && seen["straggler"]["ratio"] > 1.5;
  });
  const Ended text = tool({"inspect", "compute", "--patience", "3"});
  done = true;
  braking.join();
  EXPECT_TRUE(named) << seen;
  EXPECT_THAT(text.out, HasSubstr("rank 1 is slow"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

}  // namespace
}  // namespace troupe::test
