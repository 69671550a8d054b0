#include "runtime/trace/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "runtime/trace/json.h"

namespace troupe::trace {
namespace {

using Json = nlohmann::json;

constexpr const char* kNasty = "say \"stage\" \\ \n\xc3\xa4\xe2\x82\xac <b>";

TracedEvent handled(const std::string& type, std::int64_t at_ns, std::int64_t duration_ns, std::int64_t depth, const std::string& from = "", std::int64_t sent_ns = 0) {
  return {.kind = "handled", .text = type, .at_ns = at_ns, .duration_ns = duration_ns, .number = depth, .from = from, .sent_ns = sent_ns};
}
TracedEvent marked(const std::string& what, std::int64_t at_ns, std::int64_t number) { return {.kind = "mark", .text = what, .at_ns = at_ns, .number = number}; }

// A message from rank 0's a to its stand-in x@1, from there to rank 1's x@0, from there to b. The probes' times of the ranks have nothing to do
// with each other; rank 1's moment is 5 us later on the shared clock.
std::vector<RankTrace> two_ranks() {
  RankTrace first{.rank = 0, .host = kNasty, .at_unix_s = 1000.0, .probe_ns = 1'000'000};
  first.streams.push_back({.name = "compute", .kind = "compute", .operations = {{.name = "forward block 1", .step = 3, .micro_batch = 1, .begin_ns = 1'000'000, .end_ns = 1'000'700, .waited_ns = 5},
                                                                               {.name = kNasty, .begin_ns = 1'000'699, .end_ns = 1'000'900}}});
  first.actors.push_back({.name = "a", .events = {handled("Go", 1'000'000, 500, 2)}});
  first.actors.push_back({.name = "x@1", .events = {marked(kFrameOut, 1'000'610, 7), handled("Number", 1'000'600, 50, 0, "a", 1'000'400)}});
  first.counters.push_back({.name = "credits a.out -> x@1.in", .at_ns = 1'001'000, .value = 3});
  RankTrace second{.rank = 1, .host = "there", .at_unix_s = 1000.000005, .probe_ns = 77'000'000};
  second.actors.push_back({.name = "x@0", .events = {marked(kFrameIn, 77'000'020, 7), handled("Fetched", 77'000'010, 40, 0)}});
  second.actors.push_back({.name = kNasty, .lost = 9, .events = {handled("Number", 77'000'100, 10, 0, "x@0", 77'000'030)}});
  second.actors.back().events[0].others = 12;
  return {first, second};
}

Json picture(const std::vector<RankTrace>& ranks) { return Json::parse(chrome_trace(ranks, "job"), nullptr, false); }

std::vector<Json> of(const Json& picture, const std::string& phase) {
  std::vector<Json> found;
  for (const auto& event : picture["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

TEST(ChromeTrace, SaysHowManyOthersAnEventStandsFor) {
  std::vector<Json> others;
  for (const Json& slice : of(picture(two_ranks()), "X")) {
    if (slice["args"].contains("others_before")) others.push_back(slice);
  }
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0]["name"], "Number");
  EXPECT_EQ(others[0]["args"]["others_before"], 12);
}

TEST(ChromeTrace, KeepsTheRulesOfTheFormat) {
  const Json trace = picture(two_ranks());
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  std::map<std::pair<int, int>, double> ends;
  for (const auto& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer() && event["name"].is_string()) << event;
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"].get<double>(), 0) << event;
    if (event["ph"] != "X") continue;
    auto& end = ends[{event["pid"], event["tid"]}];
    EXPECT_GE(event["ts"].get<double>() + 1e-6, end) << "slices of one line overlap: " << event;
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
}

TEST(ChromeTrace, PutsRanksOnOneClock) {
  std::map<std::string, double> at;
  for (const auto& slice : of(picture(two_ranks()), "X")) at[slice["name"]] = slice["ts"];
  EXPECT_DOUBLE_EQ(at["Go"], 0);
  EXPECT_NEAR(at["Fetched"], 5.010, 1e-3);  // of rank 1, 10 ns after the moment that is 5 us behind
}

TEST(ChromeTrace, LeadsAMessageFromActorToActorAndRankToRank) {
  const Json trace = picture(two_ranks());
  std::map<int, std::pair<Json, Json>> arrows;
  for (const auto& event : of(trace, "s")) arrows[event["id"]].first = event;
  for (const auto& event : of(trace, "f")) arrows[event["id"]].second = event;
  std::map<std::string, int> names;
  for (const auto& [id, ends] : arrows) {
    ASSERT_TRUE(ends.first.is_object() && ends.second.is_object()) << id;
    EXPECT_LE(ends.first["ts"], ends.second["ts"]);
    ++names[ends.first["name"]];
  }
  EXPECT_EQ(names, (std::map<std::string, int>{{"Number", 2}, {"x", 1}}));
  for (const auto& [id, ends] : arrows) {
    if (ends.first["name"] != "x") continue;
    EXPECT_EQ(ends.first["pid"], 0);
    EXPECT_EQ(ends.second["pid"], 1);
  }
}

// Its host's clock goes 50 us wrong.
TEST(ChromeTrace, LeavesOutAndCountsWhatWouldGoBackwards) {
  auto ranks = two_ranks();
  ranks[1].at_unix_s = 1000.0 - 50e-6;
  const Json trace = picture(ranks);
  for (const auto& event : of(trace, "s")) EXPECT_NE(event["name"], "x");
  EXPECT_EQ(trace["otherData"]["arrows_backwards"], 1);
  EXPECT_EQ(of(trace, "s").size(), of(trace, "f").size());
}

TEST(ChromeTrace, SaysNamesAsTheyAreAndWhatIsLost) {
  const Json trace = picture(two_ranks());
  std::vector<std::string> processes, lines;
  for (const auto& event : of(trace, "M")) {
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    if (event["name"] == "thread_name") lines.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(processes, testing::ElementsAre(std::string("rank 0 (") + kNasty + ")", "rank 1 (there)"));
  EXPECT_THAT(lines, testing::ElementsAre("stream compute", "a", "x@1", "x@0", kNasty));
  EXPECT_EQ(trace["otherData"]["lost"], 9);
  EXPECT_EQ(of(trace, "C").size(), 5u);  // four mailboxes, one edge
}

TEST(ChromeTrace, OfNothingIsEmptyAndValid) { EXPECT_EQ(picture({})["traceEvents"].size(), 0u); }

TEST(RankTrace, ComesBackAsItWas) {
  const auto ranks = two_ranks();
  const auto back = rank_trace_from_json(to_json(ranks[0]));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, ranks[0]);
  EXPECT_THAT(std::string(rank_trace_from_json("{\"schema\":1}").status().message()), testing::HasSubstr("rank is missing"));
}

TEST(RankTrace, LooksAreOneWithoutWhatBothHaveSeenAndWithWhatNoneHas) {
  const auto look = [](std::int64_t first, std::int64_t count) {
    RankTrace trace{.clock_error_ns = first};
    trace.actors.push_back({.name = "a", .id = 1, .next = first + count});
    for (std::int64_t i = first; i < first + count; ++i) trace.actors[0].events.push_back(handled("N", i, 1, i));
    return trace;
  };
  RankTrace all = look(10, 0);  // from 10 on
  extend(all, look(10, 5));
  extend(all, look(12, 6));
  extend(all, look(18, 0));
  extend(all, look(20, 2));  // 18 and 19 were overwritten
  std::vector<std::int64_t> numbers;
  for (const auto& event : all.actors[0].events) numbers.push_back(event.number);
  EXPECT_THAT(numbers, testing::ElementsAre(10, 11, 12, 13, 14, 15, 16, 17, 20, 21));
  EXPECT_EQ(all.actors[0].lost, 2);
  EXPECT_EQ(all.clock_error_ns, 10);
}

TEST(RankTrace, HoldsWhatEndedSinceThen) {
  VirtualClock clock;
  clock.advance(1);
  ProbeRegistry probes([](std::uint32_t type) { return "T" + std::to_string(type); }, &clock);
  const auto sender = std::make_shared<Probe>("sender", probes.ticks()), receiver = std::make_shared<Probe>("receiver", probes.ticks());
  probes.add(sender);
  probes.add(receiver);
  const auto stream = std::make_shared<StreamProbe>("compute", probes.ticks());
  probes.add(stream, "compute");
  const int slot = receiver->add_type(5);
  for (int i = 0; i < 3; ++i) {
    const Probe::Sent sent = receiver->sent(5);
    clock.advance(100);
    receiver->begin_handling(slot, sent);
    stream->begin({.what = "forward", .step = i});
    clock.advance(10);
    receiver->end_handling(sent, sender->id());
    stream->end();
  }
  const RankTrace trace = rank_trace(probes, 150);
  ASSERT_EQ(trace.actors.size(), 2u);
  EXPECT_THAT(trace.actors[1].events, testing::ElementsAre(handled("T5", 211, 10, 0, "sender", 111), handled("T5", 321, 10, 0, "sender", 221)));
  EXPECT_EQ(trace.actors[1].next, 3);
  EXPECT_EQ(trace.actors[1].lost, 0);
  ASSERT_EQ(trace.streams.size(), 1u);
  EXPECT_EQ(trace.streams[0].operations.size(), 2u);
  EXPECT_EQ(trace.streams[0].next, 3);
}

}  // namespace
}  // namespace troupe::trace
