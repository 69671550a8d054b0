#include "actors/train/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/cpu/cpu.h"
#include "tests/support/tiny_job.h"

namespace troupe::test {
namespace {

using nlohmann::json;

// What a reader in another language makes of a file: each event's fields by name, or why it is broken.
json read_by_python(const std::string& path) {
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/events.json";
  const std::string command = "python3 tests/unit/actors/read_event_file.py '" + path + "' > '" + out + "'";
  const int status = std::system(command.c_str());
  std::ifstream file(out);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return status == 0 ? json::parse(text, nullptr, false) : json{{"broken", text}};
}

bool has_python() { return std::system("python3 -c '' > /dev/null 2>&1") == 0; }

// RFC 3720, B.4, and a record of another writer.
TEST(EventFile, HasTheChecksumsOfOthers) {
  using std::string_literals::operator""s;
  EXPECT_EQ(actors::crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(actors::crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(actors::crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(actors::crc32c("\x1a\x11" "CRC test, one two"s), 0xf2d95a88u);
  EXPECT_EQ(actors::masked_crc32c("\x1a\x11" "CRC test, one two"s), 0x5794d08au);
}

TEST(EventFile, IsReadBackByAnotherReader) {
  if (!has_python()) GTEST_SKIP() << "no python3 on this machine";
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/" + actors::event_file_name(1764495049.75, "node-7", 4711, 40);
  EXPECT_EQ(std::filesystem::path(path).filename(), "events.out.tfevents.1764495049.node-7.4711.40");
  const std::vector<actors::EventScalar> scalars{{"loss", 2.5}, {"mfu(%)", 41.25}, {"lost", std::nan("")}};
  std::ofstream(path, std::ios::binary) << actors::version_record(1764495049.75) << actors::restart_record(1764495049.75, 40)
                                        << actors::scalars_record(1764495050.5, 1'000'000'000'041, scalars);
  const json events = read_by_python(path);
  ASSERT_EQ(events.size(), 3u) << events;
  EXPECT_EQ(events[0], (json{{"wall_time", 1764495049.75}, {"file_version", "brain.Event:2"}}));
  EXPECT_EQ(events[1], (json{{"wall_time", 1764495049.75}, {"step", 41}, {"session_status", 1}}));
  EXPECT_EQ(events[2], (json{{"wall_time", 1764495050.5}, {"step", 1'000'000'000'041}, {"scalars", {{"loss", 2.5}, {"mfu(%)", 41.25}, {"lost", "nan"}}}}));
  std::string torn{actors::scalars_record(1, 2, scalars)};
  torn[20] = static_cast<char>(torn[20] ^ 1);
  std::ofstream(path, std::ios::binary) << torn;
  EXPECT_THAT(read_by_python(path).dump(), testing::HasSubstr("broken"));
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) files.push_back(file.path());
  return files;
}

// What metrics.jsonl has, under torchtitan's names; a run that goes on begins a file of its own, and says from where.
TEST(EventFile, HoldsTheMetricsOfATrainingRun) {
  if (!has_python()) GTEST_SKIP() << "no python3 on this machine";
  const TemporaryFolder folder;
  const std::string corpus = make_corpus(folder.path(), 20), output = folder.path() + "/run";
  const auto run = [&](int steps) {
    return run_job(tiny_config(corpus, output), {"--training.steps=" + std::to_string(steps), "--metrics.enable_tensorboard=true"}, kernels::cpu::table());
  };
  ASSERT_TRUE(run(3).status.ok());
  const auto first = event_files(output + "/tb");
  ASSERT_EQ(first.size(), 1u);
  ASSERT_TRUE(run(5).status.ok());
  ASSERT_EQ(event_files(output + "/tb").size(), 2u);

  std::map<std::int64_t, json> shown;
  int restarts = 0;
  for (const auto& file : event_files(output + "/tb")) {
    const json events = read_by_python(file);
    ASSERT_TRUE(events.is_array() && events.size() >= 3) << events;
    EXPECT_EQ(events[0]["file_version"], "brain.Event:2");
    for (const auto& event : events) {
      if (event.contains("scalars")) shown[event["step"]] = event["scalars"];
      if (event.contains("session_status")) {
        ++restarts;
        EXPECT_EQ(event["step"], 4);
      }
    }
  }
  EXPECT_EQ(restarts, 1);
  std::ifstream metrics(output + "/metrics.jsonl");
  int lines = 0;
  for (std::string text; std::getline(metrics, text); ++lines) {
    const json line = json::parse(text);
    const json scalars = shown[line["step"]];
    ASSERT_TRUE(scalars.is_object()) << line;
    const std::map<std::string, double> expected{{"loss_metrics/global_avg_loss", line["loss"]}, {"grad_norm", line["grad_norm"]}, {"lr", line["lr"]},
                                                 {"n_tokens_seen", line["tokens"]}, {"throughput(tps)", line["tokens_per_s"]},
                                                 {"time_metrics/end_to_end(s)", line["step_s"]}, {"time_metrics/data_loading(s)", line["data_wait_s"]}};
    for (const auto& [tag, value] : expected) EXPECT_NEAR(scalars[tag].get<double>(), value, 1e-6 * std::abs(value)) << tag;
    EXPECT_GT(scalars["memory/max_resident(GiB)"], 1e-4);
  }
  EXPECT_EQ(lines, 5);
}

TEST(EventFile, IsNotWrittenUnlessAskedFor) {
  const TemporaryFolder folder;
  ASSERT_TRUE(run_job(tiny_config(make_corpus(folder.path(), 20), folder.path() + "/run"), {"--training.steps=1"}, kernels::cpu::table()).status.ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/run/tb"));
}

}  // namespace
}  // namespace troupe::test
