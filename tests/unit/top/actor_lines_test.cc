#include "tools/troupe/actor_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/trace/json.h"
#include "tools/troupe/inspect_tables.h"

namespace troupe::test {
namespace {

using nlohmann::json;
using tool::actor_lines;

// As the job answers, with lists of messages or without.
std::string answer_of(bool brief) {
  trace::RankReport report{.rank = 3};
  for (const std::string name : {"stage-0", "a \"name\"\nof two lines", ""}) {
    trace::ActorRow row{.name = name, .state = trace::State::kWaitingForCredit, .detail = "activation", .number = static_cast<std::int64_t>(name.size()) - 1};
    row.from = "stage-1";
    row.since_ns = 1'500'000'000;
    row.depth = 2;
    row.oldest_ns = 70'000;
    row.handled = 1'000'000'000'000;
    row.messages = {{.type = "actors", .handled = 7, .handling_ns = 5}};
    row.waiting = {{.type = "name", .age_ns = 3}};
    report.snapshot.actors.push_back(row);
  }
  return R"({"schema":1,"job":"rank","other":[{"rank":9,"name":"none of these"}],"actors":)" + trace::rows_to_json(report, "actors", brief) +
         R"(,"unanswered":[{"rank":1,"error":"no answer within 1 s"}],"more":{"actors":[{"name":"nor this"}]}})";
}

TEST(ActorLines, TheTextGivesWhatTheTreeGives) {
  for (const bool brief : {true, false}) {
    const std::string text = answer_of(brief);
    const auto lines = actor_lines(text);
    ASSERT_TRUE(lines.ok()) << lines.status();
    EXPECT_EQ(*lines, actor_lines(json::parse(text)));
    ASSERT_EQ(lines->actors.size(), 3u);
    EXPECT_EQ(lines->actors[0].name, "stage-0");
    EXPECT_EQ(lines->actors[0].rank, 3);
    EXPECT_EQ(lines->actors[0].depth, 2);
    EXPECT_EQ(lines->actors[0].handled, 1e12);
    EXPECT_EQ(tool::actors_text(*lines), tool::inspect_text("actors", json::parse(text)));
    EXPECT_THAT(tool::actors_text(*lines), testing::EndsWith("rank 1 did not answer: no answer within 1 s\n"));
  }
}

TEST(ActorLines, WhatIsOfAnotherKindIsPassedOver) {
  const std::string odd = R"({"actors":[{"name":5,"depth":"deep","from":null,"state":["x",{"depth":4}],"rank":true,"handled":3},7,[{"name":"within"}]],"unanswered":{"rank":1}})";
  const auto lines = actor_lines(odd);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(*lines, actor_lines(json::parse(odd)));
  ASSERT_EQ(lines->actors.size(), 1u);
  EXPECT_EQ(lines->actors[0], (tool::ActorLine{.handled = 3}));
}

// Where there is no row, none is written to: not the one before, which may have moved.
TEST(ActorLines, ListsAmongTheRowsAreNoRows) {
  for (const std::string odd : {R"({"actors":[{"depth":1},{},[5],[[6]],7]})", R"({"actors":[{"name":"a"},{},["x"],"y"]})", R"({"actors":[{"depth":{"a":[2]}},[3]]})"}) {
    const auto lines = actor_lines(odd);
    ASSERT_TRUE(lines.ok()) << lines.status();
    EXPECT_EQ(*lines, actor_lines(json::parse(odd))) << odd;
  }
}

TEST(ActorLines, NoObjectIsAnError) {
  for (const std::string text : {"", "[]", "7", "\"x\"", "null", "{\"actors\":[{\"name\":\"a\"}", "{} {}"}) {
    EXPECT_THAT(actor_lines(text).status().message(), testing::HasSubstr("no JSON")) << text;
  }
}

}  // namespace
}  // namespace troupe::test
