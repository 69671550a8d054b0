// /metrics of a job that stands still says what the job's JSON says, sample by sample.
#include <map>
#include <sstream>

#include "actors/inspect/http.h"
#include "tests/proc/inspect/inspect_fixture.h"

namespace troupe::test {
namespace {

using nlohmann::json;

using Samples = std::map<std::string, double>;

Samples samples_of(const std::string& page) {
  Samples samples;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const auto space = line.rfind(' ');
    EXPECT_TRUE(samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second) << "twice: " << line;
  }
  return samples;
}

// Each sample that the JSON has a counterpart of, by the name that it must have.
Samples expected_of(const json& job, const json& ranks, const json& compute) {
  Samples samples;
  samples["troupe_job_info{run=\"" + job["job"].get<std::string>() + "\",output=\"" + job["output"].get<std::string>() + "\"}"] = 1;
  samples["troupe_start_time_seconds"] = job["started_unix_s"];
  samples["troupe_straggler_rank"] = compute["straggler"].is_null() ? -1 : compute["straggler"]["rank"].get<double>();
  double restarts = 0;
  for (const auto& rank : ranks["ranks"]) {
    const std::string of_rank = "{rank=\"" + std::to_string(rank["rank"].get<int>()) + "\"";
    const auto labelled = [&](const char* name, const char* label = nullptr, const json& of = {}) {
      return std::string("troupe_") + name + of_rank + (label == nullptr ? "" : std::string(",") + label + "=\"" + of["name"].get<std::string>() + "\"") + "}";
    };
    samples[labelled("rank_up")] = rank["answered"].get<bool>();
    samples[labelled("memory_bytes")] = rank["memory_bytes"];
    samples[labelled("memory_peak_bytes")] = rank["memory_peak_bytes"];
    samples[labelled("open_collectives")] = static_cast<double>(rank["collectives"].size());
    for (const auto& stream : rank["streams"]) {
      samples[labelled("stream_busy_seconds_total", "stream", stream)] = stream["busy_s"];
      samples[labelled("stream_queued_operations", "stream", stream)] = stream["queued"];
    }
    for (const auto& actor : rank["actors"]) {
      samples[labelled("mailbox_depth", "actor", actor)] = actor["depth"];
      samples[labelled("mailbox_oldest_seconds", "actor", actor)] = actor["oldest_s"];
      samples[labelled("messages_handled_total", "actor", actor)] = actor["handled"];
      samples[labelled("handling_seconds_total", "actor", actor)] = actor["handling_s"];
      samples[labelled("dead_letters_total", "actor", actor)] = actor["dead"];
      restarts += actor["restarts"].get<double>();
    }
    for (const auto& edge : rank["edges"]) {
      samples[labelled("edge_credits", "edge", edge)] = edge["capacity"];
      samples[labelled("edge_free_credits", "edge", edge)] = edge["free"];
      samples[labelled("edge_messages_total", "edge", edge)] = edge["sent"];
      samples[labelled("edge_bytes_total", "edge", edge)] = edge["bytes"];
    }
  }
  samples["troupe_restarts_total{domain=\"actor\"}"] = restarts;
  return samples;
}

// Of the process and not of the job: looking at it takes memory.
bool moves(const std::string& sample) { return sample.starts_with("troupe_memory_"); }

TEST_F(Inspect, MetricsOfAStuckJobAreWhatItsJsonSays) {
  ToolProcess job({"launch", "--nproc", "2", "--", DEADLOCK_PROGRAM}, folder());
  ASSERT_TRUE(here(2)) << job.err();
  ASSERT_TRUE(wait_until([&] { return json_of({"inspect", "waits", "--json"}).value("cycles", json::array()).size() == 1; }));
  const auto card = jobs().at(0);
  const actors::HttpPlace place{.socket = runtime() + "/" + card["job"].get<std::string>() + ".0.sock"};
  const auto asked = [&](const std::string& path) { return actors::http_get(place, path + "?patience_s=10", std::chrono::seconds(20)); };
  const auto answer = [&](const std::string& path) { return json::parse(asked(path).value_or("{}"), nullptr, false); };
  const auto seen = [&] { return expected_of(answer("/v1/job"), answer("/v1/ranks"), answer("/v1/compute")); };

  const Samples before = seen();
  const auto page = asked("/metrics");
  ASSERT_TRUE(page.ok()) << page.status();
  const Samples samples = samples_of(*page), after = seen();
  EXPECT_GT(samples.size(), 40u);
  for (const auto& [name, value] : before) {
    const auto found = samples.find(name);
    if (found == samples.end()) {
      ADD_FAILURE() << "/metrics lacks " << name;
    } else if (moves(name)) {
      EXPECT_GT(found->second, value / 2) << name;
      EXPECT_LT(found->second, 2 * after.at(name)) << name;
    } else {
      EXPECT_EQ(value, after.at(name)) << "it does not stand still: " << name;
      EXPECT_DOUBLE_EQ(found->second, value) << name;
    }
  }
  for (const auto& [name, value] : samples) EXPECT_TRUE(before.contains(name)) << "no counterpart in the JSON: " << name;
  job.signal(SIGTERM);
  job.wait();
}

}  // namespace
}  // namespace troupe::test
