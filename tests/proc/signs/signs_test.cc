// tools/troupe/SIGNS.md: each situation is provoked with real processes, and looks as the page shows it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

const std::vector<std::string> kSituations{"Slow loader",     "Straggler",         "Unbalanced stages", "Stuck collective",  "Slow link",
                                           "Checkpoint wait", "Credit starvation", "Dead letters",      "Memory high-water", "Loss spike"};

// Of the page; empty if it has none of that title.
std::string section_of(const std::string& title) {
  std::string section;
  bool inside = false;
  const std::vector<std::string> lines = absl::StrSplit(read_text("tools/troupe/SIGNS.md"), '\n');
  for (const auto& line : lines) {
    if (line.starts_with("## ")) inside = line == absl::StrCat("## ", title);
    if (inside) absl::StrAppend(&section, line, "\n");
  }
  return section;
}

bool has(const std::string& text, const std::string& sign) {
  const std::regex wanted(sign);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  return std::ranges::any_of(lines, [&](const std::string& line) { return std::regex_search(line, wanted); });
}

// A job of two hosts, namespaces joined by a link of 20 Mbit/s, until it goes out of scope. Over UCX's tcp alone, since they share this machine's memory.
class SlowlyLinkedJob {
 public:
  // `words`: of the rank's command, after the binary.
  SlowlyLinkedJob(const TinyRun& run, std::string output, const std::vector<std::string>& words) : output_(std::move(output)), log_(run.folder() + "/log") {
    const std::string script = run.folder() + "/linked.sh";
    std::ofstream file(script);
    file << "for port in 1 2; do tc qdisc add dev port-$port root tbf rate 20mbit burst 64k latency 1s || { echo no link can be limited; exit 77; }; done\n"
         << TROUPE_BINARY " launch --env UCX_TLS=tcp --hosts $HOST_1:1,$HOST_2:1 --ssh \"$SSH\" -- " TROUPE_BINARY;
    for (const auto& word : words) file << " '" << word << "'";
    file << "\n";
    file.close();
    ended_ = std::async(std::launch::async, [command = absl::StrCat(WITH_HOSTS " 2 bash ", script, " >", log_, " 2>&1")] { return WEXITSTATUS(std::system(command.c_str())); });
  }
  ~SlowlyLinkedJob() {
    if (running()) signal_process(pid_of_rank(output_, 0), SIGTERM);
    if (wait_until([this] { return !running(); })) return;
    for (const auto& [rank, pid] : ranks_of(output_)) signal_process(pid, SIGKILL);
  }
  bool running() const { return ended_.wait_for(0s) != std::future_status::ready; }
  bool is_possible() const { return running() || ended_.get() != 77; }
  std::string log() const { return read_text(log_); }

 private:
  const std::string output_, log_;
  std::shared_future<int> ended_;
};

class Signs : public Inspect {
 protected:
  // The command shows the sign, a line, before long; the page has the command, and the sign in what it shows of it.
  void expect_sign(const std::string& title, const std::string& command, const std::string& sign) const {
    const std::string section = section_of(title);
    EXPECT_TRUE(has(section, absl::StrCat("^\\$ troupe ", command, "$"))) << title << " does not say troupe " << command;
    EXPECT_TRUE(has(section, sign)) << "the page has no such line in " << title << ": " << sign;
    std::string seen;
    EXPECT_TRUE(wait_until([&] { return has(seen = tool(absl::StrSplit(command, ' ')).out, sign); }, 60s)) << title << ": troupe " << command << " shows no " << sign << ":\n" << seen;
  }
  std::vector<std::string> endless(int ranks, const std::vector<std::string>& environment, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--training.steps=1000000", "--lr_scheduler.total_steps=1000000", "--job.heartbeat_timeout_s=20"});
    auto words = launched(run_, ranks, "job", more);
    for (const auto& variable : environment) words.insert(words.begin() + 3, {"--env", variable});
    return words;
  }
  std::string output() const { return run_.output("job"); }
  bool trains(ToolProcess& job, std::size_t steps = 2) const {
    return wait_until([&] { return steps_of(output()).size() >= steps || !job.running(); }) && job.running();
  }
  // Of the steps so far, the median of a field of metrics.jsonl over step_s.
  double median_share_of_step(const std::string& field) const {
    std::vector<double> shares;
    const std::vector<std::string> lines = absl::StrSplit(read_text(output() + "/metrics.jsonl"), '\n', absl::SkipEmpty());
    for (const auto& text : lines) {
      if (field_of(text, "step_s").empty() || field_of(text, field).empty()) continue;
      shares.push_back(std::stod(field_of(text, field)) / std::stod(field_of(text, "step_s")));
    }
    if (shares.empty()) return 0;
    std::ranges::sort(shares);
    return shares[shares.size() / 2];
  }
  // Of some steps that both have computed, the median of how many times as long rank 1 computes as rank 0.
  double median_of_compute() const {
    std::vector<double> ratios;
    double before_s[2] = {0, 0};
    wait_until([&] {
      double step_s[2] = {0, 0};
      for (const auto& rank : json_of({"inspect", "compute", "--json"}).value("ranks", json::array())) step_s[rank["rank"].get<int>()] = rank.value("step_busy_s", 0.0);
      const bool is_another = step_s[0] != before_s[0] && step_s[1] != before_s[1];
      if (step_s[0] > 0 && step_s[1] > 0 && is_another) {
        ratios.push_back(step_s[1] / step_s[0]);
        std::ranges::copy(step_s, before_s);
      }
      return ratios.size() >= 15;
    }, 60s);
    if (ratios.empty()) return 0;
    std::ranges::sort(ratios);
    return ratios[ratios.size() / 2];
  }
  std::vector<std::string> in_two_stages(const std::string& vocabulary) const {
    return endless(2, {}, {"--parallelism.data_parallel=1", "--parallelism.pipeline=2", "--training.global_batch=8", "--training.seq_len=64", "--model.vocab_size=" + vocabulary});
  }
  static void end(ToolProcess& job) {
    job.signal(SIGTERM);
    job.wait();
  }
  TinyRun run_;
};

TEST_F(Signs, ThePageHasASectionForEach) {
  for (const auto& title : kSituations) {
    const std::string section = section_of(title);
    for (const char* part : {"\n```\n$ troupe ", "\n**Why.** ", "\n**Do.** "}) EXPECT_THAT(section, testing::HasSubstr(part)) << title;
  }
}

TEST_F(Signs, SlowLoader) {
  ToolProcess job(endless(1, {std::string("LD_PRELOAD=") + SLOW_FILES, "TROUPE_SLOW_PAGE_MS=500", "UCX_MEM_EVENTS=no"}), folder());
  ASSERT_TRUE(trains(job, 3)) << job.err();
  EXPECT_GT(median_share_of_step("data_wait_s"), 0.5);
  expect_sign("Slow loader", "inspect actors --actor source", "source +running");
  expect_sign("Slow loader", "inspect waits", "^from the ledger: .* -> rank 0 source$");
  end(job);
}

// The same job with a disk of its usual pace does not wait for data.
TEST_F(Signs, AnUsualLoaderIsNotWaitedFor) {
  ToolProcess job(endless(1, {}), folder());
  ASSERT_TRUE(trains(job, 10)) << job.err();
  EXPECT_LT(median_share_of_step("data_wait_s"), 0.25);
  end(job);
}

TEST_F(Signs, Straggler) {
  ToolProcess job(endless(2, {}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t slow = pid_of_rank(output(), 1);
  std::atomic<bool> ending = false;
  // A core that is taken from it for nine tenths of the time.
  std::thread thief([&] {
    while (!ending) {
      signal_process(slow, SIGSTOP);
      wait_until([&] { return ending.load(); }, 90ms);
      signal_process(slow, SIGCONT);
      wait_until([&] { return ending.load(); }, 10ms);
    }
  });
  int by_rank[2] = {0, 0};
  wait_until([&] {
    for (const auto& open : json_of({"inspect", "collectives", "--json"}).value("collectives", json::array())) {
      for (const auto& rank : open["missing"]) ++by_rank[rank.get<int>()];
    }
    return by_rank[0] + by_rank[1] >= 60;
  }, 60s);
  EXPECT_GT(by_rank[1], 2 * by_rank[0]);
  expect_sign("Straggler", "inspect collectives", "0 +all-reduce .*gradient of block.* +1$");
  ending = true;
  thief.join();
  end(job);
}

// Of the second stage the head is most: each token has a product with every row of the vocabulary.
TEST_F(Signs, UnbalancedStages) {
  ToolProcess job(in_two_stages("32768"), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  EXPECT_GT(median_of_compute(), 2);
  expect_sign("Unbalanced stages", "inspect compute", "^ +0 +[1-4]?[0-9] % +[0-9.]+ m?s$");
  expect_sign("Unbalanced stages", "inspect compute", "^ +1 +([5-9][0-9]|100) % +[0-9.]+ m?s$");
  expect_sign("Unbalanced stages", "inspect streams", "1 +compute +compute .* loss block [0-9]+ ");
  expect_sign("Unbalanced stages", "inspect waits", "^from the ledger: .*rank 1 stage-1 -> rank 1 device$");
  end(job);
}

// The same with a small vocabulary: two layers each, and each about as long.
TEST_F(Signs, EvenStagesComputeAsLong) {
  ToolProcess job(in_two_stages("257"), folder());
  ASSERT_TRUE(trains(job, 10)) << job.err();
  const double ratio = median_of_compute();
  EXPECT_GT(ratio, 0.5);
  EXPECT_LT(ratio, 2);
  end(job);
}

TEST_F(Signs, StuckCollective) {
  ToolProcess job(endless(2, {}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t stuck = pid_of_rank(output(), 1);
  // One that is stopped after its part of a step leaves no collective open, and the ledger waits for it: one time in twenty.
  constexpr const char* kOpen = "0 +all-reduce .*gradient of block.* [0-9.]+ s +1$";
  const auto is_open = [&] { return has(tool({"inspect", "collectives"}).out, kOpen); };
  ASSERT_TRUE(signal_process(stuck, SIGSTOP));
  for (int i = 0; i < 10 && !wait_until(is_open, 4s); ++i) {
    ASSERT_TRUE(signal_process(stuck, SIGCONT));
    const std::size_t steps = steps_of(output()).size();
    ASSERT_TRUE(trains(job, steps + 1)) << job.err();
    ASSERT_TRUE(signal_process(stuck, SIGSTOP));
  }
  expect_sign("Stuck collective", "inspect collectives", kOpen);
  expect_sign("Stuck collective", "inspect collectives", "^rank 1 did not answer: no answer");
  expect_sign("Stuck collective", "inspect waits", "gradient of block.*: not entered by rank 1; rank 0 waits");
  ASSERT_TRUE(signal_process(stuck, SIGCONT));
  end(job);
}

TEST_F(Signs, SlowLink) {
  const auto words = endless(2, {});
  SlowlyLinkedJob job(run_, output(), {words.begin() + 5, words.end()});
  const bool trains = wait_until([&] { return steps_of(output()).size() >= 2 || !job.running(); }) && job.running();
  if (!job.is_possible()) GTEST_SKIP() << "skipped because " << job.log();
  ASSERT_TRUE(trains) << job.log();
  // Neither computes, and a sum is open on both.
  int looks = 0, idle = 0, open_on_both = 0;
  wait_until([&] {
    std::set<int> open;
    for (const auto& collective : json_of({"inspect", "collectives", "--json"}).value("collectives", json::array())) open.insert(collective["rank"].get<int>());
    const json ranks = json_of({"inspect", "compute", "--json"}).value("ranks", json::array());
    idle += ranks.size() == 2 && std::ranges::all_of(ranks, [](const json& rank) { return rank.value("busy_ratio", 1.0) < 0.25; });
    open_on_both += open == std::set{0, 1};
    return ++looks == 40;
  }, 60s);
  EXPECT_GT(idle, looks / 2);
  EXPECT_GT(open_on_both, looks / 2);
  for (const char* rank : {"0", "1"}) {
    expect_sign("Slow link", "inspect compute", absl::StrCat("^ +", rank, " +1?[0-9] % "));
    expect_sign("Slow link", "inspect collectives", absl::StrCat("^ +", rank, " +all-reduce .*gradient of block.* ([1-9][0-9][0-9] ms|[0-9.]+ s)( +[01])?$"));
  }
  expect_sign("Slow link", "inspect waits", "^from the ledger: .* -> rank [01] shard-[0-9]+$");
}

TEST_F(Signs, CheckpointWait) {
  ToolProcess job(endless(1, {std::string("LD_PRELOAD=") + SLOW_FILES, "TROUPE_SLOW_FSYNC_MS=1500"}, {"--checkpoint.interval=1"}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  expect_sign("Checkpoint wait", "inspect actors --actor checkpoint-writer", "checkpoint-writer +running .*[1-9][0-9]*[.][0-9] s ");
  EXPECT_TRUE(wait_until([&] { return job.err().find("waits for the one still being written") != std::string::npos; })) << job.err();
  EXPECT_TRUE(has(section_of("Checkpoint wait"), "the save due at step .* waits for the one still being written"));
  end(job);
}

TEST_F(Signs, CreditStarvation) {
  ToolProcess job({"launch", "--nproc", "1", "--", PROVOKED, "credits"}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  expect_sign("Credit starvation", "inspect actors --state waiting-for-credit", "producer +waits for credit");
  expect_sign("Credit starvation", "inspect edges --actor producer", "producer.work +consumer.in +2 +0 +2 +0 +2 ");
  expect_sign("Credit starvation", "inspect waits", "^root: rank 0 consumer: ");
  end(job);
}

TEST_F(Signs, DeadLetters) {
  ToolProcess job({"launch", "--nproc", "1", "--", PROVOKED, "dead"}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  expect_sign("Dead letters", "inspect dead", "gone +ended .* ago: OK +Note +after end +[0-9]+");
  end(job);
}

TEST_F(Signs, MemoryHighWater) {
  ToolProcess job({"launch", "--nproc", "1", "--", PROVOKED, "memory"}, folder());
  ASSERT_TRUE(here(1)) << job.err();
  expect_sign("Memory high-water", "inspect job", "^ +0 .* MiB +[2-9][0-9][0-9][.][0-9] MiB +answers");
  json rank;
  EXPECT_TRUE(wait_until([&] {  // what it needed for a moment is given back
    const json ranks = json_of({"inspect", "job", "--json"}).value("ranks", json::array());
    rank = ranks.empty() ? json::object() : ranks[0];
    return rank.value("memory_peak_bytes", 0.0) > rank.value("memory_bytes", 0.0) + 200e6;
  }, std::chrono::seconds(20))) << rank;
  end(job);
}

// A part of the corpus is unlike what was learnt so far.
TEST_F(Signs, LossSpike) {
  const std::string text = folder() + "/text.txt", corpus = folder() + "/odd";
  {
    std::ofstream file(text);
    for (int i = 0; i < 12000; ++i) file << "ab";
    for (unsigned i = 1; i < 60000; ++i) file << static_cast<char>(' ' + i * i * 2654435761u % 4294967291u / 7 % 90);
  }
  const Ended prepared = tool({"data", "prepare", text, "-o", corpus});
  ASSERT_EQ(prepared.exit_code, 0) << prepared.err;
  ToolProcess job(endless(1, {}, {"--data.train=" + corpus, "--data.shuffle=false", "--spike.factor=2", "--spike.max_skipped=1000000"}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  expect_sign("Loss spike", "inspect job", "; [1-9][0-9]* skipped");
  end(job);
}

}  // namespace
}  // namespace troupe::test
