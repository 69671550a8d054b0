// What is made of the ranks' answers, and a rank's answers for one list.
#include "actors/inspect/views.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "actors/inspect/question.h"
#include "actors/inspect/rank_answers.h"
#include "runtime/trace/json.h"

namespace troupe::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kSecond = 1'000'000'000;

// Two actors of two ranks that wait for each other for 3 s.
std::vector<trace::RankReport> circle() {
  std::vector<trace::RankReport> reports(2);
  for (int rank = 0; rank < 2; ++rank) {
    reports[static_cast<std::size_t>(rank)].rank = rank;
    reports[static_cast<std::size_t>(rank)].snapshot.actors.push_back(
        {.name = absl::StrCat("a", rank), .state = trace::State::kWaitingForInput, .detail = "x", .from = absl::StrCat("a", 1 - rank, "@", 1 - rank), .since_ns = 3 * kSecond});
  }
  return reports;
}

TEST(Views, AFrameSaysHowLongItsRanksWereAsked) {
  const auto cycles = [](const json& asking_s) {
    json frame{{"schema", trace::kSchema}, {"ranks", json::array()}};
    if (!asking_s.is_null()) frame["asking_s"] = asking_s;
    for (const auto& report : circle()) frame["ranks"].push_back(json::parse(trace::to_json(report, true)));
    const auto shown = actors::with_waits(frame.dump());
    EXPECT_TRUE(shown.ok()) << shown.status();
    return shown.ok() ? json::parse(*shown)["waits"]["cycles"].size() : 99;
  };
  EXPECT_EQ(cycles(2.5), 1u);
  EXPECT_EQ(cycles(3.5), 0u);  // they may never have waited at the same time
  EXPECT_EQ(cycles(nullptr), 1u);
  EXPECT_EQ(cycles("long"), 1u);
}

TEST(Views, TheTimeToTheLastAnswerCountsNotThatOfTheSilent) {
  const auto waits = [](std::int64_t answered_ns, std::int64_t silent_ns) {
    std::vector<actors::RankReply> replies;
    for (const auto& report : circle()) replies.push_back({.rank = report.rank, .text = trace::to_json(report, true), .after_ns = answered_ns});
    replies.push_back({.rank = 2, .status = absl::DeadlineExceededError("no answer"), .after_ns = silent_ns});
    const actors::JobCard card;
    return json::parse(*actors::waits_view({.card = card}, replies));
  };
  EXPECT_EQ(waits(2 * kSecond, 10 * kSecond)["cycles"].size(), 1u);
  const json late = waits(4 * kSecond, 10 * kSecond);
  EXPECT_EQ(late["cycles"].size(), 0u);
  ASSERT_EQ(late["edges"].size(), 2u);
  EXPECT_EQ(late["edges"][0]["young"], true);
}

TEST(RankAnswers, EachListOfAReportCanBeAskedForAlone) {
  trace::ProbeRegistry registry([](std::uint32_t) { return "Type"; }, nullptr);
  const auto living = std::make_shared<trace::Probe>("living", registry.ticks()), dead = std::make_shared<trace::Probe>("dead", registry.ticks());
  registry.add(living);
  registry.add(dead);
  registry.bury(*dead, "OK", {});
  const std::shared_ptr<const trace::EdgeProbe> edge = std::make_shared<trace::EdgeProbe>();
  const std::shared_ptr<const trace::StreamProbe> stream = std::make_shared<trace::StreamProbe>("compute", registry.ticks());
  registry.add(edge);
  registry.add(stream, "compute");
  const actors::RankSources rank{.rank = Rank(0), .probes = &registry};
  const auto report = actors::answer(rank, {.verb = "report"}, false);
  ASSERT_TRUE(report.ok()) << report.status();
  const json all = json::parse(*report);
  int lists = 0;
  for (const auto& [name, whole] : all.items()) {
    if (!whole.is_array()) continue;
    ++lists;
    const auto alone = actors::answer(rank, {.verb = "rows", .words = {{"list", name}}}, false);
    ASSERT_TRUE(alone.ok()) << name << ": " << alone.status();
    EXPECT_EQ(json::parse(*alone).size(), whole.size()) << name;
  }
  EXPECT_EQ(lists, 5);
  EXPECT_TRUE(absl::IsNotFound(actors::answer(rank, {.verb = "rows", .words = {{"list", "nonesuch"}}}, false).status()));
}

}  // namespace
}  // namespace troupe::test
