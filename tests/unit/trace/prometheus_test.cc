#include "runtime/trace/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "runtime/trace/json.h"

namespace troupe::trace {
namespace {

using testing::HasSubstr;

const JobLabels kMetricsJob{.run = "0123abcd", .output = "/runs/\"a\"\n\\b", .started_unix_s = 1764495049.25};

std::vector<RankReport> ranks_to_scrape() {
  RankReport first{.rank = 0, .host = "node-1", .pid = 1};
  first.memory_bytes = 5'000'000'001;
  first.memory_peak_bytes = 6'000'000'001;
  first.snapshot.actors.push_back({.name = "ledger", .handled = 41, .dead = 2, .depth = 3, .oldest_ns = 1'500'000'000, .handling_ns = 250'000'000, .restarts = 1});
  first.snapshot.actors.push_back({.name = "odd \"name\"\\ in\ntwo lines \xc3\xa9", .depth = 9});
  first.snapshot.edges.push_back({.name = "a.out -> b.in", .capacity = 4, .free = 1, .sent = 19, .bytes = 12'345'678'901});
  first.snapshot.edges.push_back({.name = "a.out -> b.in", .capacity = 2, .free = 2, .sent = 1, .bytes = 9});
  first.collectives.push_back({.group = "replicas"});
  first.streams.push_back({.name = "compute", .busy_ns = 12'500'000'000, .queued = 7});
  first.training = {.step = 11, .steps = 100, .steps_here = 6, .loss = 2.345678901234, .grad_norm = 0.1, .validation_loss = 2.5, .validation_step = 10,
                    .learning_rate = 3e-4, .tokens = 7'000, .tokens_here = 6'000, .effective_tokens = 5'900, .mfu_ratio = 0.42,
                    .step_open_ns = 25'000'000, .wall_ns = 90'000'000'000, .useful_ns = 80'000'000'000, .goodput_ratio = 0.875,
                    .badput = {{"startup", 1'500'000'000}, {"checkpoint_wait", 250'000'000}, {"overdue", 70'000'000}}, .skipped_steps = 1, .restarts = 1,
                    .steps_ns = 81'000'000'000, .step_times = {.bounds_s = {0.001, 0.5}, .counts = {1, 2, 3}}};
  RankReport silent{.rank = 1, .host = "node-2", .answered = false, .error = "no answer within 1.0 s"};
  return {first, silent};
}

// By its name and labels, as the page spells them.
std::map<std::string, std::string> samples_of(const std::string& page) {
  std::map<std::string, std::string> found;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const std::size_t space = line.rfind(' ');
    EXPECT_TRUE(found.emplace(line.substr(0, space), line.substr(space + 1)).second) << "twice: " << line;
  }
  return found;
}

TEST(Prometheus, HasTheValuesOfTheReport) {
  const auto page = samples_of(to_prometheus(kMetricsJob, ranks_to_scrape()));
  const std::map<std::string, std::string> expected{
      {"troupe_loss", "2.345678901234"},
      {"troupe_grad_norm", "0.1"},
      {"troupe_step", "11"},
      {"troupe_tokens_total", "6000"},
      {"troupe_effective_tokens_total", "5900"},
      {"troupe_goodput_ratio", "0.875"},
      {"troupe_mfu_ratio", "0.42"},
      {"troupe_badput_seconds_total{type=\"startup\"}", "1.5"},
      {"troupe_badput_seconds_total{type=\"checkpoint_wait\"}", "0.25"},
      {"troupe_step_overdue_seconds", "0.07"},
      {"troupe_checkpoint_stall_seconds_total", "0.25"},
      {"troupe_skipped_steps_total", "1"},
      {"troupe_restarts_total{domain=\"job\"}", "1"},
      {"troupe_restarts_total{domain=\"actor\"}", "1"},
      {"troupe_straggler_rank", "-1"},
      {"troupe_stream_busy_seconds_total{rank=\"0\",stream=\"compute\"}", "12.5"},
      {"troupe_stream_queued_operations{rank=\"0\",stream=\"compute\"}", "7"},
      {"troupe_rank_up{rank=\"0\"}", "1"},
      {"troupe_rank_up{rank=\"1\"}", "0"},
      {"troupe_memory_bytes{rank=\"0\"}", "5000000001"},
      {"troupe_mailbox_depth{rank=\"0\",actor=\"ledger\"}", "3"},
      {"troupe_mailbox_oldest_seconds{rank=\"0\",actor=\"ledger\"}", "1.5"},
      {"troupe_dead_letters_total{rank=\"0\",actor=\"ledger\"}", "2"},
      {"troupe_step_duration_seconds_bucket{le=\"0.001\"}", "1"},
      {"troupe_step_duration_seconds_bucket{le=\"0.5\"}", "3"},
      {"troupe_step_duration_seconds_bucket{le=\"+Inf\"}", "6"},
      {"troupe_step_duration_seconds_sum", "81"},
      {"troupe_step_duration_seconds_count", "6"},
  };
  for (const auto& [name, value] : expected) {
    const auto at = page.find(name);
    ASSERT_NE(at, page.end()) << name;
    EXPECT_EQ(at->second, value) << name;
  }
  EXPECT_EQ(page.count("troupe_memory_bytes{rank=\"1\"}"), 0u);  // it has not said
  EXPECT_EQ(page.count("troupe_badput_seconds_total{type=\"overdue\"}"), 0u);  // goes down again
}

TEST(Prometheus, EscapesNamesOfAnyBytes) {
  const auto page = samples_of(to_prometheus(kMetricsJob, ranks_to_scrape()));
  EXPECT_EQ(page.at("troupe_mailbox_depth{rank=\"0\",actor=\"odd \\\"name\\\"\\\\ in\\ntwo lines \xc3\xa9\"}"), "9");
  EXPECT_EQ(page.at("troupe_job_info{run=\"0123abcd\",output=\"/runs/\\\"a\\\"\\n\\\\b\"}"), "1");
}

// Two series of one name make Prometheus refuse the whole page.
TEST(Prometheus, AddsUpWhatIsCalledTheSame) {
  const auto page = samples_of(to_prometheus(kMetricsJob, ranks_to_scrape()));
  EXPECT_EQ(page.at("troupe_edge_credits{rank=\"0\",edge=\"a.out -> b.in\"}"), "6");
  EXPECT_EQ(page.at("troupe_edge_bytes_total{rank=\"0\",edge=\"a.out -> b.in\"}"), "12345678910");
}

TEST(Prometheus, NamesTheRankThatComputesSlower) {
  std::vector<RankReport> reports;
  for (const int rank : {0, 1, 2}) {
    reports.push_back({.rank = rank});
    reports.back().snapshot.actors.push_back({.name = "stage-0"});
    reports.back().streams.push_back({.name = "compute", .kind = "compute", .busy_ratio = 0.9, .step_busy_ns = rank == 1 ? 1'500'000'000 : 1'000'000'000});
  }
  EXPECT_EQ(samples_of(to_prometheus(kMetricsJob, reports)).at("troupe_straggler_rank"), "1");
}

TEST(Prometheus, ALostRunHasNoNumberAndANewOneNoLoss) {
  auto reports = ranks_to_scrape();
  reports[0].training->loss = std::nullopt;
  EXPECT_EQ(samples_of(to_prometheus(kMetricsJob, reports)).at("troupe_loss"), "NaN");
  reports[0].training->steps_here = 0;
  EXPECT_THAT(to_prometheus(kMetricsJob, reports), testing::Not(HasSubstr("troupe_loss")));
  reports[0].training.reset();
  EXPECT_THAT(to_prometheus(kMetricsJob, reports), testing::Not(HasSubstr("troupe_step")));
}

// By the judge of the format, of Debian's package prometheus.
TEST(Prometheus, PassesPromtool) {
  if (std::system("promtool --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool on this machine";
  const std::string file = testing::TempDir() + "/troupe_metrics.txt";
  for (const auto& reports : {ranks_to_scrape(), std::vector<RankReport>{}}) {
    std::ofstream(file) << to_prometheus(kMetricsJob, reports);
    const std::string command = "promtool check metrics < " + file;
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace troupe::trace
