// From the ledger to what holds it up, over two processes, whatever that is.
#include <ostream>

#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/train/cluster.h"
#include "tests/tool/stopped_thread.h"

namespace troupe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// One thread of one rank hangs.
struct Hang {
  std::string name;
  int rank = 0;
  std::string thread;
  std::vector<std::string> over;  // that the chain leads over, in this order
  std::string end;                // where it ends
  std::string doing;              // what is said of that
  bool pipeline = false, at_the_end = false;
};
void PrintTo(const Hang& hang, std::ostream* out) { *out << hang.name; }

class Chain : public Inspect {
 protected:
  std::vector<std::string> endless(const std::vector<std::string>& more = {}) const {
    auto words = launched(run_, 2, "job", {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=60", "--limits.shutdown_seconds=90"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  bool trains(ToolProcess& job) const {
    return wait_until([&] { return steps_of(output()).size() >= 2 || !job.running(); }) && job.running();
  }
  std::string output() const { return run_.output("job"); }
  json waits() const { return json_of({"inspect", "waits", "--json", "--patience", "1"}); }
  // What was stopped may go on, or it would be stopped again where it stood.
  void let_it_train() const {
    const auto steps = steps_of(output()).size();
    wait_until([&] { return steps_of(output()).size() > steps; }, std::chrono::seconds(10));
  }
  // As it stays: asked again until it ends there.
  bool leads_to(const std::string& end, json& last, std::chrono::seconds patience) const {
    return wait_until([&] {
      last = waits();
      const json chain = last.value("chain", json::array());
      return !chain.empty() && chain.back() == end;
    }, patience);
  }
  json chain_to(const std::string& end) const {
    json last;
    EXPECT_TRUE(leads_to(end, last, std::chrono::seconds(30))) << last.value("text", "") << last.dump(1);
    return last;
  }

  TinyRun run_;
};

std::string why_of(const json& waits, const std::string& id) {
  for (const auto& root : waits["roots"]) {
    if (root["id"] == id) return root["why"];
  }
  return "";
}

// In this order.
bool leads_over(const json& waits, const std::vector<std::string>& actors) {
  const auto chain = waits.value("chain", std::vector<std::string>());
  auto at = chain.begin();
  for (const auto& actor : actors) at = std::find_if(at, chain.end(), [&](const std::string& id) { return id.starts_with(actor); });
  return at != chain.end();
}

class ChainOf : public Chain, public testing::WithParamInterface<Hang> {};

TEST_P(ChainOf, EndsAtTheCause) {
  const Hang& hang = GetParam();
  const std::vector<std::string> pipeline{"--parallelism.data_parallel=1", "--parallelism.pipeline=2"};
  ToolProcess job(endless(hang.pipeline ? pipeline : std::vector<std::string>()), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t thread = thread_called(pid_of_rank(output(), hang.rank), hang.thread);
  ASSERT_GT(thread, 0);
  const int tries = hang.at_the_end ? 0 : 5;
  for (int tries_left = tries;; --tries_left) {
    if (tries_left < tries) let_it_train();
    const StoppedThread stopped(thread);
    if (!stopped.stands()) GTEST_SKIP() << "skipped because a thread of a child cannot be stopped here";
    if (hang.at_the_end) job.signal(SIGTERM);
    json seen;
    // Stopped with the heap's lock it holds up the actors, too, and stopped in an update nobody waits for what it computes: then once more, elsewhere.
    if (tries_left > 0 && !(leads_to(hang.end, seen, std::chrono::seconds(5)) && leads_over(seen, hang.over))) continue;
    seen = chain_to(hang.end);
    const auto chain = seen.value("chain", std::vector<std::string>());
    EXPECT_EQ(chain.empty() ? "" : chain.front(), "0/ledger");
    EXPECT_TRUE(leads_over(seen, hang.over)) << testing::PrintToString(hang.over) << " in " << testing::PrintToString(chain);
    EXPECT_THAT(why_of(seen, hang.end), testing::StartsWith(hang.doing));
    EXPECT_EQ(seen["cycles"], json::array()) << seen["text"].get<std::string>();
    break;
  }
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}
INSTANTIATE_TEST_SUITE_P(
    , ChainOf,
    testing::Values(Hang{.name = "Loader", .rank = 1, .thread = "loader", .over = {"1/replica", "1/stage-0"}, .end = "1/source", .doing = "running read"},
                    Hang{.name = "DeviceOfAReplica", .rank = 1, .thread = "compute", .over = {"1/replica"}, .end = "1/device", .doing = "running"},
                    Hang{.name = "DeviceOfAStage", .rank = 0, .thread = "compute", .over = {"1/replica", "1/stage-1", "0/stage-0"}, .end = "0/device",
                         .doing = "running", .pipeline = true},
                    Hang{.name = "Metrics", .rank = 0, .thread = "metrics", .over = {}, .end = "0/reporter", .doing = "running metrics"},
                    Hang{.name = "DiskOfACheckpoint", .rank = 1, .thread = "storage", .over = {"0/checkpoint-writer"}, .end = "1/checkpoint-writer",
                         .doing = "running file", .at_the_end = true}),
    [](const auto& tested) { return tested.param.name; });

// Each rank is asked at another moment, and both are in front of each other in turn: before it was known that a wait may be too young, one look in
// forty saw a circle.
TEST_F(Chain, NoCircleIsNamedInAJobThatTrains) {
  ToolProcess job(endless({"--parallelism.zero=1"}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  int looks = 0;
  for (; looks < 150 && job.running(); ++looks) {
    const json seen = waits();
    const json cycles = seen.value("cycles", json());
    ASSERT_TRUE(cycles.is_array()) << seen.dump();
    EXPECT_TRUE(cycles.empty()) << seen.value("text", "");
    EXPECT_THAT(seen.value("text", ""), Not(HasSubstr("no edge and no actor is called so")));
  }
  EXPECT_EQ(looks, 150) << job.err();
  job.signal(SIGTERM);
  job.wait();
}

// One rank computes and does not come to the sum over both, in which the other waits.
TEST_F(Chain, NamesTheRankThatHasNotEnteredACollective) {
  ToolProcess job(endless(), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t thread = thread_called(pid_of_rank(output(), 1), "compute");
  ASSERT_GT(thread, 0);
  // Where it is stopped, nobody may wait for it in a sum, or it holds the heap's lock: then once more, elsewhere.
  constexpr int kTries = 5;
  for (int tries_left = kTries;; --tries_left) {
    if (tries_left < kTries) let_it_train();
    const StoppedThread stopped(thread);
    if (!stopped.stands()) GTEST_SKIP() << "skipped because a thread of a child cannot be stopped here";
    json open;
    const bool is_missed = wait_until([&] {
      const json answer = json_of({"inspect", "collectives", "--json", "--patience", "1"});
      if (!answer.value("unanswered", json::array()).empty()) return false;
      for (const auto& row : answer.value("collectives", json::array())) {
        if (row["rank"] == 0 && row["missing"] == json({1}) && row["since_s"] > 0.5) open = row;
      }
      return !open.is_null();
    }, std::chrono::seconds(tries_left > 0 ? 5 : 30));
    if (!is_missed && tries_left > 0) continue;
    ASSERT_TRUE(is_missed) << tool({"inspect", "collectives"}).out;
    EXPECT_EQ(open["entered"], json({0}));
    const std::string sequence = std::to_string(open["sequence"].get<std::int64_t>());
    EXPECT_THAT(open["what"].get<std::string>(), testing::HasSubstr(" " + sequence + " of group "));
    const Ended collectives = tool({"inspect", "collectives", "--patience", "5"});
    EXPECT_THAT(collectives.out, testing::ContainsRegex("\n +0  [^\n]* " + sequence + " of group [^\n]*  1\n"));
    EXPECT_THAT(collectives.out, testing::Not(testing::HasSubstr("did not answer")));
    const json seen = waits();
    const std::string named = "(" + sequence + " of " + open["group"].get<std::string>() + ")";
    EXPECT_THAT(seen["text"].get<std::string>(), testing::ContainsRegex("\ncollective [^\n]* \\(" + sequence + " of [^\n]*: not entered by rank 1; rank 0 waits|^collective [^\n]* \\(" + sequence +
                                                                          " of [^\n]*: not entered by rank 1; rank 0 waits"));
    bool waits_for_it = false;
    for (const auto& edge : seen["edges"]) {
      const bool crosses = edge["from"].get<std::string>().starts_with("0/") && edge["to"].get<std::string>().starts_with("1/");
      waits_for_it = waits_for_it || (crosses && edge["why"].get<std::string>().ends_with(named));
    }
    EXPECT_TRUE(waits_for_it) << named << "\n" << seen["edges"].dump(1);
    break;
  }
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

// The last step is closed, and nothing is left but a validation whose corpus is slow: the source has nothing more to do.
TEST_F(Chain, EndsAtTheLoaderOfAValidation) {
  auto words = launched(run_, 1, "job", {"--parallelism.pipeline=2", "--training.steps=1", "--lr_scheduler.total_steps=1", "--validation.interval=1", "--validation.steps=280"});
  for (const auto& variable : {std::string("LD_PRELOAD=") + SLOW_FILES, std::string("TROUPE_SLOW_PAGE_MS=200"), std::string("UCX_MEM_EVENTS=no")})
    words.insert(words.begin() + 3, {"--env", variable});
  ToolProcess job(words, folder());
  ASSERT_TRUE(here(1)) << job.err();
  const json seen = chain_to("0/evaluator");
  EXPECT_EQ(seen["chain"], json({"0/ledger", "0/replica", "0/evaluator"}));
  EXPECT_THAT(why_of(seen, "0/evaluator"), testing::StartsWith("running read"));
}

TEST_F(Chain, EndsAtAStoppedRank) {
  ToolProcess job(endless(), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t pid = pid_of_rank(output(), 1);
  ASSERT_TRUE(signal_process(pid, SIGSTOP));
  const json seen = chain_to("1/");
  EXPECT_THAT(why_of(seen, "1/"), testing::StartsWith("silent"));
  ASSERT_TRUE(signal_process(pid, SIGCONT));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().exit_code, 0);
}

}  // namespace
}  // namespace troupe::test
