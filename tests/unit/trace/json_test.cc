#include "runtime/trace/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "runtime/trace/waits.h"

namespace troupe::trace {
namespace {

using testing::HasSubstr;

// Every field has a value of its own.
RankReport full_report() {
  RankReport report{.rank = 3, .host = "node-7", .pid = 4711, .at_unix_s = 1764495049.25};
  report.snapshot.at_ns = 86'400'123'456'789;
  report.snapshot.actors.push_back({.name = "stage-0",
                                    .state = State::kWaitingForCredit,
                                    .detail = "stage-1.activation",
                                    .from = "stage-1@2",
                                    .number = 12,
                                    .since_ns = 1'234'567'891,
                                    .sent = 9'000'000'000'000'000'001,
                                    .handled = 40,
                                    .dead = 2,
                                    .depth = 3,
                                    .depth_max = 17,
                                    .growth_per_s = -2.5,
                                    .oldest_ns = 1,
                                    .handling_ns = 999'999'999,
                                    .restarts = 1,
                                    .events_lost = 5,
                                    .messages = {{"Batch", 39, 7}, {"Gradient", 1, 8}},
                                    .dead_letters = {{"Batch", DeadReason::kTimerDropped, 2}},
                                    .waiting = {{"Gradient", 11}, {"Batch", 10}},
                                    .in_mailbox = {.bounds_s = {1e-6}, .counts = {4, 5}},
                                    .in_handler = {.bounds_s = {2e-6}, .counts = {6, 7}}});
  for (int state = 0; state <= static_cast<int>(State::kEnded); ++state) {
    report.snapshot.actors.push_back({.name = "a", .state = static_cast<State>(state)});
  }
  report.snapshot.edges.push_back({.name = "stage-0.out -> stage-1.activation",
                                   .from = "stage-0.out",
                                   .to = "stage-1.activation",
                                   .from_rank = -1,
                                   .to_rank = 1,
                                   .capacity = 4,
                                   .free = 1,
                                   .in_flight = 3,
                                   .taken = 20,
                                   .sent = 19,
                                   .delivered = 18,
                                   .returned = 18,
                                   .reclaimed = 17,
                                   .bytes = 12'345'678'901,
                                   .bytes_per_s = 0.5});
  report.snapshot.tombstones.push_back({.name = "loader",
                                        .cause = "DATA_LOSS: torn",
                                        .chain = {"disk: short read", "loader: torn"},
                                        .at_ns = 86'400'000'000'001,
                                        .sent = 5,
                                        .handled = 4,
                                        .dead = 1,
                                        .dead_letters = {{"Read", DeadReason::kAfterEnd, 1}}});
  report.snapshot.tombstones_dropped = 6;
  report.collectives.push_back(
      {.group = "replicas", .sequence = 17, .what = "gradient of block 3", .since_ns = 5'000'000, .entered = {0, 3}, .missing = {1, 2}});
  report.streams.push_back({.name = "compute",
                            .kind = "device",
                            .busy_ratio = 0.1,
                            .busy_ns = 21,
                            .queued = 2,
                            .done = 22,
                            .running = "forward block 3",
                            .running_ns = 23,
                            .step_busy_ns = 24});
  report.restarts = 3;
  report.memory_bytes = 5'000'000'000;
  report.memory_peak_bytes = 6'000'000'000;
  report.training = {.step = 11, .steps = 100, .steps_here = 10, .loss = 2.25, .grad_norm = std::nullopt, .validation_loss = 2.5, .validation_step = 9,
                     .learning_rate = 3e-4, .tokens = 7'000, .tokens_here = 6'000, .effective_tokens = 5'900, .tokens_per_s = 1234.5, .mfu_ratio = 0.42,
                     .step_ns = 21, .median_step_ns = 22, .data_wait_ns = 23, .checkpoint_wait_ns = 24, .step_open_ns = 25, .wall_ns = 26, .useful_ns = 27,
                     .goodput_ratio = 0.96, .badput = {{"startup", 28}, {"skipped", 29}}, .skipped_steps = 1, .restarts = 2, .steps_ns = 30,
                     .step_times = {.bounds_s = {0.001, 0.002}, .counts = {1, 2, 3}}};
  return report;
}

RankReport silent_report() { return {.rank = 1, .host = "node-8", .answered = false, .error = "no answer within 1.0 s", .silent_s = 2.5}; }

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string error_of(std::string_view json) { return std::string(rank_report_from_json(json).status().message()); }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(ReportJson, BringsEveryFieldAsItWas) {
  const RankReport report = full_report();
  const auto back = rank_report_from_json(to_json(report));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, report);
  const auto silent = rank_report_from_json(to_json(silent_report()));
  ASSERT_TRUE(silent.ok()) << silent.status();
  EXPECT_EQ(*silent, silent_report());
}

TEST(ReportJson, IsWhatTheSchemaSays) {
  EXPECT_EQ(to_json(silent_report()),
            R"({"schema":1,"rank":1,"host":"node-8","answered":false,"error":"no answer within 1.0 s","silent_s":2.5})");
  const std::string json = to_json(full_report());
  EXPECT_THAT(
      json,
      HasSubstr(R"({"schema":1,"rank":3,"host":"node-7","answered":true,"pid":4711,"at_unix_s":1764495049.25,"probe_s":86400.123456789,)"));
  EXPECT_THAT(
      json,
      HasSubstr(
          R"({"name":"stage-0","state":"waiting_for_credit","detail":"stage-1.activation","from":"stage-1@2","number":12,"since_s":1.234567891,"depth":3)"));
  EXPECT_THAT(json, HasSubstr(R"("in_flight":3,"queued":1,"held":0,)"));
  EXPECT_THAT(
      json,
      HasSubstr(R"({"group":"replicas","sequence":17,"what":"gradient of block 3","since_s":0.005,"entered":[0,3],"missing":[1,2]})"));
}

// Of any age up to 26 days.
TEST(ReportJson, IsExactToTheNanosecond) {
  std::mt19937_64 random(1);
  RankReport report;
  report.snapshot.actors.resize(10'000);
  for (auto& actor : report.snapshot.actors) actor.since_ns = static_cast<std::int64_t>(random() >> (13 + random() % 50));
  const auto back = rank_report_from_json(to_json(report));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, report);
}

TEST(ReportJson, LeavesOutWhatIsLongWhenBrief) {
  const std::string json = to_json(full_report(), true);
  for (const char* field : {"\"messages\"", "\"waiting\"", "\"dead_letters\"", "\"in_mailbox_s\"", "\"in_handler_s\""}) EXPECT_EQ(json.find(field), std::string::npos) << field;
  const auto back = rank_report_from_json(json);
  ASSERT_TRUE(back.ok()) << back.status();
  RankReport expected = full_report();
  for (auto& actor : expected.snapshot.actors) {
    actor.messages.clear();
    actor.waiting.clear();
    actor.in_mailbox = actor.in_handler = {};
    actor.dead_letters.clear();
  }
  for (auto& stone : expected.snapshot.tombstones) stone.dead_letters.clear();
  EXPECT_EQ(*back, expected);
}

TEST(ReportJson, TakesNamesOfAnyBytes) {
  RankReport report;
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  report.snapshot.actors = {{.name = "torn \xc3("}, {.name = "\"quoted\\\"\n"}, {.name = every}};
  report.streams.push_back({.name = "none", .busy_ratio = std::nan("")});
  const auto back = rank_report_from_json(to_json(report));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->snapshot.actors[0].name, "torn \xef\xbf\xbd(");
  EXPECT_EQ(back->snapshot.actors[1].name, "\"quoted\\\"\n");
  EXPECT_EQ(back->snapshot.actors[2].name.substr(0, 128), every.substr(0, 128));
  EXPECT_EQ(back->streams[0].busy_ratio, 0);
}

TEST(ReportJson, SaysWhichFieldIsWrongAndWhatIsAllowed) {
  const std::string good = to_json(full_report());
  EXPECT_THAT(error_of(""), HasSubstr("0 bytes that are no JSON object"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("schema is missing"));
  EXPECT_THAT(error_of(replaced(good, "\"schema\":1", "\"schema\":2")), HasSubstr("schema is 2; allowed is 1"));
  EXPECT_THAT(error_of(replaced(good, "\"rank\":3", "\"rank\":3000000000")),
              HasSubstr("rank is of type number; allowed is a whole number of 32 bits"));
  EXPECT_THAT(error_of(replaced(good, "\"rank\":3", "\"rank\":3.5")), HasSubstr("rank is of type number"));
  EXPECT_THAT(error_of(replaced(good, "9000000000000000001", "18446744073709551615")),
              HasSubstr("actors[0].sent is of type number; allowed is a whole number of 64 bits"));
  EXPECT_THAT(error_of(replaced(good, "\"depth_max\":17", "\"depht_max\":17")), HasSubstr("actors[0].depth_max is missing"));
  EXPECT_THAT(error_of(replaced(good, "\"waiting_for_credit\"", "\"asleep\"")),
              HasSubstr("actors[0].state is 'asleep'; allowed: idle, ready, handling"));
  EXPECT_THAT(error_of(replaced(good, "\"timer_dropped\"", "\"lost\"")), HasSubstr("actors[0].dead_letters[0].reason is 'lost'"));
  EXPECT_THAT(error_of(replaced(good, "1.234567891", "1e30")),
              HasSubstr("actors[0].since_s is of type number; allowed is a time in seconds"));
  EXPECT_THAT(error_of(replaced(good, "1.234567891", "1e999")), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(replaced(good, "\"missing\":[1,2]", "\"missing\":[1,\"2\"]")),
              HasSubstr("collectives[0].missing is of type string"));
  EXPECT_THAT(error_of(replaced(good, "\"training\":{", "\"training\":[{}],\"others\":{")), HasSubstr("training is of type array; allowed is an object"));
  EXPECT_THAT(error_of(replaced(good, "2.25", "\"low\"")), HasSubstr("training.loss is of type string; allowed is a number"));
  EXPECT_THAT(error_of(replaced(good, "\"counts\":[1", "\"counts\":[1.5")), HasSubstr("training.step_times.counts is of type number"));
  EXPECT_THAT(error_of(replaced(good, "\"answered\":true", "\"answered\":1")),
              HasSubstr("answered is of type number; allowed is true or false"));
}

TEST(ReportJson, SurvivesMutationsOfAGoodReport) {
  const std::string good = to_json(full_report());
  const std::vector<std::string> pieces = {"{",    "}",       "[",      "]", ",", "\"", "null", "-1", "1e308", "18446744073709551615",
                                           "\xff", "\\u0000", "{\"a\":"};
  std::mt19937 random(20);
  const auto below = [&random](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  int taken = 0, refused = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::string text = good;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.insert(at, pieces[below(pieces.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(20));
          break;
        case 3:
          text.replace(at, 1, pieces[below(pieces.size())]);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(50)));
          break;
      }
      if (text.empty()) text = "{";
    }
    const auto report = rank_report_from_json(text);
    ++(report.ok() ? taken : refused);
    if (report.ok()) {
      const auto again = rank_report_from_json(to_json(*report));
      ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    } else {
      EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 1'000);
  EXPECT_FALSE(rank_report_from_json(std::string(1'000'000, '[')).ok());
  std::string deep = "{\"schema\":";
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  EXPECT_FALSE(rank_report_from_json(deep + "1" + std::string(100'001, '}')).ok());
}

// A loss that is not finite is no number of JSON; nor is one that there is none of yet.
TEST(ReportJson, HasNullForALossThatThereIsNoneOf) {
  RankReport report;
  report.training.emplace().loss = std::nan("");
  const std::string json = to_json(report);
  EXPECT_THAT(json, HasSubstr(R"("loss":null,"grad_norm":null,)"));
  const auto back = rank_report_from_json(json);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->training->loss, std::nullopt);
  EXPECT_EQ(to_json(RankReport{}).find("training"), std::string::npos);
}

TEST(ReportJson, ThePageNamesEveryFieldThatIsWritten) {
  const std::string page = text_of("runtime/trace/SCHEMA.md");
  const std::string json =
      to_json(full_report()) + to_json(silent_report()) + to_json(wait_graph(std::vector{full_report(), silent_report()}));
  const std::regex field_name("\"(\\w+)\":");
  std::set<std::string> written;
  for (std::sregex_iterator at(json.begin(), json.end(), field_name); at != std::sregex_iterator(); ++at) written.insert((*at)[1]);
  EXPECT_GT(written.size(), 50u);
  for (const auto& field : written) EXPECT_THAT(page, HasSubstr("`" + field + "`"));
  for (int state = 0; state <= static_cast<int>(State::kEnded); ++state) {
    EXPECT_THAT(page, HasSubstr("`" + std::string(trace::key(static_cast<State>(state))) + "`"));
  }
}

}  // namespace
}  // namespace troupe::trace
