// What a job says by itself when nothing goes on (CASES T25, T28).
#include <fstream>
#include <regex>
#include <thread>

#include "actors/inspect/stall_watch.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A ledger that waits for a loader, as a registry would show them; nobody runs.
class StallWatchTest : public Inspect {
 protected:
  StallWatchTest() : registry_([](std::uint32_t) { return "Read"; }, nullptr) {
    for (const auto& probe : {ledger_, loader_}) registry_.add(probe);
    ledger_->set_state(trace::State::kWaitingForInput, registry_.intern("batch"), 4, registry_.intern("loader"));
    loader_->set_state(trace::State::kRunning, registry_.intern("read"), 4);
    inspector_ = std::make_unique<actors::Inspector>(
        actors::Inspector::Setup{.job = "57a11ed0", .program = "test", .ranks = {{.rank = Rank(0), .probes = &registry_}}});
  }
  actors::StallWatch::Setup setup(double least_s) {
    return {.inspector = *inspector_, .probes = {&registry_}, .factor = 3, .least_s = least_s, .last_done = StepId(3), .folder = folder()};
  }
  bool says(const actors::StallWatch& watch, std::int64_t reports) {
    return wait_until([&] { return watch.reports() == reports; }, 20s);
  }
  static bool still_says_after(const actors::StallWatch& watch, std::int64_t reports, std::chrono::milliseconds time) {
    return !wait_until([&] { return watch.reports() != reports; }, time);
  }

  trace::ProbeRegistry registry_;
  std::shared_ptr<trace::Probe> ledger_ = std::make_shared<trace::Probe>("ledger", trace::Ticks(nullptr));
  std::shared_ptr<trace::Probe> loader_ = std::make_shared<trace::Probe>("loader", trace::Ticks(nullptr));
  std::unique_ptr<actors::Inspector> inspector_;
};

TEST_F(StallWatchTest, SaysOnceForAStall) {
  actors::StallWatch watch;
  watch.start(setup(0.2));
  ASSERT_TRUE(says(watch, 1));
  EXPECT_TRUE(still_says_after(watch, 1, 1s));
  const json report = json::parse(read_text(folder() + "/stalls/step-4.json"), nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["step"], 4);
  EXPECT_GE(report["stalled_s"], 0.2);
  EXPECT_EQ(report["waits"]["chain"], json({"0/ledger", "0/loader"}));
  ASSERT_GE(report["roots"].size(), 1u);
  EXPECT_EQ(report["roots"][0]["actor"], "loader");
  EXPECT_EQ(report["roots"][0]["detail"], "read");
  EXPECT_EQ(report["roots"][0]["number"], 4);
  EXPECT_THAT(report["roots"][0]["last_events"].dump(), HasSubstr("running read"));
  EXPECT_THAT(read_text(folder() + "/stalls/step-4.txt"),
              AllOf(HasSubstr("step 4 is not closed after"), HasSubstr("rank 0 loader: running read 4"), HasSubstr("s ago: running read 4"),
                    HasSubstr("from the ledger: rank 0 ledger -> rank 0 loader")));
  watch.step_closed(StepId(4), 1'000'000);  // it went on
  ASSERT_TRUE(says(watch, 2));
  EXPECT_TRUE(std::filesystem::exists(folder() + "/stalls/step-5.txt"));
  watch.end();
}

// Three times 0.4 s are more than the least.
TEST_F(StallWatchTest, KnowsAStepThatTakesLongFromAStall) {
  actors::StallWatch watch;
  watch.start(setup(0.1));
  watch.step_closed(StepId(4), 400'000'000);
  const auto closed = std::chrono::steady_clock::now();
  ASSERT_TRUE(says(watch, 1));
  EXPECT_GE(std::chrono::steady_clock::now() - closed, 1150ms);
  watch.end();
}

TEST_F(StallWatchTest, WhoHasNothingToDoIsNotStalled) {
  ledger_->set_state(trace::State::kIdle);  // the job is held
  actors::StallWatch watch;
  watch.start(setup(0.1));
  EXPECT_TRUE(still_says_after(watch, 0, 1s));
  watch.end();
}

TEST_F(StallWatchTest, EndsAJobThatIsToBeStopped) {
  Status why;
  std::atomic<int> stopped = 0;
  actors::StallWatch watch;
  auto stops = setup(0.1);
  stops.stop = [&](const Status& cause) { why = cause, ++stopped; };
  watch.start(std::move(stops));
  ASSERT_TRUE(wait_until([&] { return stopped == 1; }, 20s));
  watch.end();
  EXPECT_THAT(std::string(why.message()), AllOf(HasSubstr("step 4 is not closed after"), HasSubstr("rank 0 loader: running read 4")));
}

TEST_F(StallWatchTest, DoesNotEndAJobThatSaves) {
  ledger_->set_state(trace::State::kWaitingForInput, registry_.intern("save"), 4, registry_.intern("loader"));
  std::atomic<int> stopped = 0;
  actors::StallWatch watch;
  auto stops = setup(0.1);
  stops.stop = [&](const Status&) { ++stopped; };
  watch.start(std::move(stops));
  ASSERT_TRUE(says(watch, 1));
  watch.end();
  EXPECT_EQ(stopped, 0);
}

class StallOf : public Inspect {
 protected:
  std::vector<std::string> endless(const std::vector<std::string>& more) const {
    auto words = launched(run_, 2, "job", {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=50",
                                           "--limits.shutdown_seconds=60", "--job.stall_min_s=2"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  bool trains(ToolProcess& job, std::size_t steps = 2) const {
    return wait_until([&] { return steps_of(output()).size() >= steps || !job.running(); }) && job.running();
  }
  std::string output() const { return run_.output("job"); }
  std::vector<std::string> reports(const std::string& extension) const {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(output() + "/stalls", error)) {
      if (file.path().extension() == extension) found.push_back(file.path().string());
    }
    return found;
  }
  TinyRun run_;
};

TEST_F(StallOf, ATrainingNamesTheStoppedRankEachTimeAndGoesOn) {
  ToolProcess job(endless({}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  for (std::size_t time = 1; time <= 2; ++time) {
    const pid_t pid = pid_of_rank(output(), 1);
    ASSERT_TRUE(signal_process(pid, SIGSTOP));
    EXPECT_TRUE(wait_until([&] { return times_in(job.err(), "the whole report of the stall") == time; }, 30s)) << job.err();
    ASSERT_TRUE(signal_process(pid, SIGCONT));
    const auto steps = steps_of(output()).size();
    ASSERT_TRUE(trains(job, steps + 3)) << job.err();
  }
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
  EXPECT_TRUE(std::regex_search(job.err(), std::regex("step [0-9]+ is not closed after [0-9.]+ s \\(the median step takes [0-9.]+ s\\): rank 1: silent"))) << job.err();
  ASSERT_EQ(reports(".json").size(), 2u);
  for (const auto& path : reports(".json")) {
    const json report = json::parse(read_text(path), nullptr, false);
    ASSERT_TRUE(report.is_object()) << path;
    EXPECT_EQ(report["roots"][0]["id"], "1/") << path;
    EXPECT_EQ(report["waits"]["chain"].back(), "1/") << path;
    ASSERT_EQ(report["ranks"].size(), 2u);
    EXPECT_EQ(report["ranks"][1]["answered"], false);
  }
}

TEST_F(StallOf, ATrainingThatIsToStopEndsWithTheCause) {
  ToolProcess job(endless({"--job.on_stall=stop"}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  ASSERT_TRUE(signal_process(pid_of_rank(output(), 1), SIGSTOP));
  const Ended& ended = job.wait(40s);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_FALSE(ended.killed());
  EXPECT_THAT(ended.err, AllOf(HasSubstr("job.on_stall = stop: rank 1: silent"), HasSubstr("/stalls")));
  EXPECT_EQ(reports(".txt").size(), 1u);
  EXPECT_TRUE(ranks_of(output()).empty());
}

TEST_F(StallOf, AProgramNamesItsCircleByItselfOnce) {
  ToolProcess job({"launch", "--nproc", "2", "--", DEADLOCK_PROGRAM, "1"}, folder());
  const std::string said = "these wait for each other: rank 0 red, rank 0 green, rank 1 blue";
  EXPECT_TRUE(wait_until([&] { return job.err().find(said) != std::string::npos; }, 30s)) << job.err();
  EXPECT_FALSE(wait_until([&] { return times_in(job.err(), said) > 1; }, 4s)) << job.err();
  EXPECT_THAT(job.err(), AllOf(HasSubstr("no actor has handled a message for 1."), HasSubstr("rank 1 blue waits for"), HasSubstr(" s ago: waiting for credit of blue-red@0.in"), Not(HasSubstr("[1] a cycle"))));
  job.signal(SIGTERM);
  job.wait();
}

}  // namespace
}  // namespace troupe::test
