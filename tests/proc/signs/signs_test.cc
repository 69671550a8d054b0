// tools/troupe/SIGNS.md: each situation is provoked with real processes, and looks as the page shows it.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <regex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/train/cluster.h"

namespace troupe::test {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

const std::vector<std::string> kSituations{"Slow loader", "Straggler", "Stuck collective", "Checkpoint wait", "Credit starvation", "Dead letters", "Memory high-water", "Loss spike"};

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

TEST_F(Signs, StuckCollective) {
  ToolProcess job(endless(2, {}), folder());
  ASSERT_TRUE(trains(job)) << job.err();
  const pid_t stuck = pid_of_rank(output(), 1);
  ASSERT_TRUE(signal_process(stuck, SIGSTOP));
  expect_sign("Stuck collective", "inspect collectives", "0 +all-reduce .*gradient of block.* [0-9.]+ s +1$");
  expect_sign("Stuck collective", "inspect collectives", "^rank 1 did not answer: no answer");
  expect_sign("Stuck collective", "inspect waits", "gradient of block.*: not entered by rank 1; rank 0 waits");
  ASSERT_TRUE(signal_process(stuck, SIGCONT));
  end(job);
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
  expect_sign("Credit starvation", "inspect edges --actor producer", "producer.work +consumer.in +2 +0 +0 +2 ");
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
