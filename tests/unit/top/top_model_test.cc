// What `troupe top` shows of staged jobs, and what its keys do: no terminal, no clock.
#include "tools/top/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"

namespace troupe::top {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kNow_s = 1'000'000;

json staged_actor(const std::string& name, int depth, double oldest_s, int handled, double handling_s, const std::string& state = "idle", const std::string& detail = "") {
  return {{"name", name}, {"state", state}, {"detail", detail}, {"number", -1}, {"since_s", 3.0}, {"depth", depth}, {"depth_max", depth}, {"oldest_s", oldest_s},
          {"sent", handled + depth}, {"handled", handled}, {"dead", 0}, {"handling_s", handling_s}};
}

// Two ranks; `second` looks later.
json staged_frame(int second = 0) {
  json frame = json::parse(R"({"schema": 1, "job": {"job": "abcd1234", "world": 2, "program": "tiny.toml"},
    "ranks": [
      {"rank": 0, "host": "here", "pid": 11, "answered": true,
       "edges": [{"name": "acts", "from": "loader.out", "to": "stage.in", "capacity": 4, "free": 0, "in_flight": 4, "queued": 1, "held": 3}]},
      {"rank": 1, "host": "there", "pid": 12, "answered": true, "edges": [],
       "collectives": [{"group": "world", "sequence": 3, "what": "all_reduce of the norm", "since_s": 4.0, "missing": [0]}]}],
    "waits": {"cycles": [], "text": "root: rank 0 stage: running forward for 3.000 s\n  rank 0 loader waits for credit of acts\nfrom the ledger: a -> b\n"}})");
  frame["job"]["started_unix_s"] = kNow_s - 60;
  auto &rank0 = frame["ranks"][0], &rank1 = frame["ranks"][1];
  rank0["probe_s"] = 50.0 + second;
  rank1["probe_s"] = 80.0 + second;
  rank0["edges"][0]["sent"] = 40 + 10 * second;
  rank0["actors"].push_back(staged_actor("ledger", 0, 0, 10 + 4 * second, 1));
  rank0["actors"].push_back(staged_actor("stage", 3 + second, 2.5, 5, 2 + 0.5 * second, "running", "forward"));
  rank0["actors"].push_back(staged_actor("loader", 1, 9, 100 + 20 * second, 9, "waiting_for_credit", "acts"));
  rank1["actors"].push_back(staged_actor("replica", 0, 0, 7, 0));
  return frame;
}

json with_training(json frame, int step) {
  frame["ranks"][0]["training"] = {{"step", step}, {"steps", 1000}, {"loss", 2.3456}, {"tokens_per_s", 12345.0}, {"mfu_ratio", 0.412}, {"step_s", 0.5}};
  return frame;
}

class TopModel : public testing::Test {
 protected:
  std::vector<std::string> lines(Size size = Size(), double now_s = kNow_s) {
    std::vector<std::string> texts;
    for (const auto& line : model_.lines(size, now_s)) texts.push_back(line.text);
    return texts;
  }
  std::string screen(Size size = Size(), double now_s = kNow_s) {
    std::string all;
    for (const auto& line : lines(size, now_s)) absl::StrAppend(&all, line, "\n");
    return all;
  }
  // The second words of the rows below the titles: actors' names.
  std::vector<std::string> names() {
    std::vector<std::string> found;
    bool below = false;
    for (const auto& line : lines()) {
      std::istringstream words(line.substr(line.empty() ? 0 : 1));
      std::string rank, name;
      words >> rank >> name;
      if (below && !name.empty() && std::isdigit(static_cast<unsigned char>(rank[0]))) found.push_back(name);
      if (rank == "RANK") below = true;
    }
    return found;
  }
  std::string selected() {
    for (const auto& line : lines()) {
      if (line.starts_with(">")) return line;
    }
    return "";
  }
  void type(const std::string& text) {
    for (const char c : text) model_.key(static_cast<unsigned char>(c));
  }
  Model model_{"abcd1234"};
};

TEST_F(TopModel, ShowsActorsByDepthWithWhatTheyDo) {
  model_.frame(staged_frame(), kNow_s);
  EXPECT_THAT(names(), ElementsAre("stage", "loader", "ledger", "replica"));
  EXPECT_THAT(lines()[0], AllOf(HasSubstr("abcd1234"), HasSubstr("2 ranks"), HasSubstr("60.0 s"), HasSubstr("tiny.toml")));
  EXPECT_THAT(screen(), AllOf(HasSubstr("2 ranks answer; 4 actors, 1 wait"), HasSubstr("running forward"), HasSubstr("waits for credit acts"), HasSubstr("2.5 s")));
}

TEST_F(TopModel, SortsAsTheKeysSay) {
  model_.frame(staged_frame(), kNow_s);
  model_.frame(staged_frame(2), kNow_s + 2);
  model_.key('A');
  EXPECT_THAT(names(), ElementsAre("loader", "stage", "ledger", "replica"));
  model_.key('N');
  EXPECT_THAT(names(), ElementsAre("ledger", "loader", "replica", "stage"));
  model_.key('B');  // of the last seconds, not ever
  EXPECT_EQ(names().front(), "stage");
  model_.key('G');
  EXPECT_EQ(names().front(), "stage");
  model_.key('D');
  EXPECT_EQ(names().front(), "stage");
  for (const char* sort : {"by age", "by busy", "by growth", "by name", "by depth"}) {
    model_.key('s');
    EXPECT_THAT(screen(), HasSubstr(sort));
  }
}

TEST_F(TopModel, RatesAreOfTwoLooks) {
  model_.frame(staged_frame(), kNow_s);
  EXPECT_THAT(selected(), Not(HasSubstr("%")));  // nothing is known after one
  model_.frame(staged_frame(2), kNow_s + 2);     // 40 of the loader, 8 of the ledger, 2 more in the stage's mailbox, 1 s of 2 in its handlers
  const std::string all = screen({24, 120});
  EXPECT_THAT(all, testing::ContainsRegex("loader .* 20 +0 +0%"));
  EXPECT_THAT(all, testing::ContainsRegex("ledger .* 4 +0 +0%"));
  EXPECT_THAT(all, testing::ContainsRegex("stage .* 0 +\\+1 +50%"));
  model_.key('3');
  EXPECT_THAT(screen(), testing::ContainsRegex("loader.out +stage.in +0/4! +1 +3 +10 "));
}

TEST_F(TopModel, ARankThatBeganAgainHasNoRateYet) {
  model_.frame(staged_frame(5), kNow_s);
  model_.frame(staged_frame(), kNow_s + 1);
  EXPECT_THAT(screen({24, 120}), testing::ContainsRegex("loader .* - +- +-\n"));
}

TEST_F(TopModel, EachViewHasItsRows) {
  model_.frame(staged_frame(), kNow_s);
  const std::vector<std::pair<char, std::string>> views{{'1', "there"}, {'2', "ledger"}, {'3', "0/4!"}, {'4', "from the ledger: a -> b"}, {'5', "all_reduce of the norm"}, {'6', "no stream"}};
  for (const auto& [key, text] : views) {
    model_.key(key);
    EXPECT_THAT(screen(), HasSubstr(text)) << key;
    EXPECT_THAT(screen(), HasSubstr(absl::StrCat("[", std::string(1, key), " "))) << key;
  }
  model_.key('\t');
  EXPECT_THAT(screen(), HasSubstr("[1 ranks]"));
  model_.key(kLeft);
  EXPECT_THAT(screen(), HasSubstr("[6 streams]"));
}

TEST_F(TopModel, ASilentRankSaysWhy) {
  auto frame = staged_frame();
  frame["ranks"][1] = json::parse(R"({"rank": 1, "host": "there", "answered": false, "error": "no answer within 0.7 s", "silent_s": 12.0})");
  model_.frame(frame, kNow_s);
  model_.key('1');
  EXPECT_THAT(screen(), AllOf(HasSubstr("silent 12.0 s: no answer within 0.7 s"), HasSubstr("1 rank answers, 1 SILENT")));
}

TEST_F(TopModel, FiltersByAnyCell) {
  model_.frame(staged_frame(), kNow_s);
  type("/CREDIT");
  EXPECT_THAT(names(), ElementsAre("loader"));
  EXPECT_THAT(lines().back(), HasSubstr("/CREDIT_"));
  model_.key(kBackspace);
  model_.key(kEnter);
  type("q");  // again a key, not a letter
  EXPECT_TRUE(model_.leaves());
}

TEST_F(TopModel, AFilterThatNothingPassesSaysSo) {
  model_.frame(staged_frame(), kNow_s);
  type("/nonesuch");
  EXPECT_THAT(screen(), HasSubstr("nothing here contains nonesuch"));
  model_.key(kEscape);
  EXPECT_EQ(names().size(), 4u);
}

TEST_F(TopModel, TheSelectionFollowsItsActor) {
  model_.frame(staged_frame(), kNow_s);
  screen();
  model_.key(kDown);
  EXPECT_THAT(selected(), HasSubstr("loader"));
  auto frame = staged_frame(1);
  frame["ranks"][0]["actors"][2]["depth"] = 99;
  model_.frame(frame, kNow_s + 1);
  EXPECT_EQ(names().front(), "loader");
  EXPECT_THAT(selected(), HasSubstr("loader"));
  model_.key(kEnd);
  EXPECT_THAT(selected(), HasSubstr("replica"));
  model_.key(kDown);
  EXPECT_THAT(selected(), HasSubstr("replica"));
  model_.key(kHome);
  EXPECT_THAT(selected(), HasSubstr("loader"));
}

TEST_F(TopModel, TheFirstRowIsSelectedUntilSomebodyMoves) {
  model_.frame(staged_frame(), kNow_s);
  screen();
  EXPECT_THAT(selected(), HasSubstr("stage"));
  auto frame = staged_frame(1);
  frame["ranks"][0]["actors"][2]["depth"] = 99;
  model_.frame(frame, kNow_s + 1);
  screen();
  EXPECT_THAT(selected(), HasSubstr("loader")) << "the list does not scroll under who only looks";
  model_.key(kDown);
  model_.key(kUp);
  model_.frame(staged_frame(), kNow_s + 2);
  screen();
  EXPECT_THAT(selected(), HasSubstr("stage"));
}

TEST_F(TopModel, LooksIntoAnActor) {
  model_.frame(staged_frame(), kNow_s);
  screen();
  model_.key(kEnter);
  EXPECT_EQ(model_.opened(), "0/stage");
  json row = staged_actor("stage", 3, 2.5, 5, 2, "running", "forward");
  row["rank"] = 0;
  row["waiting"] = json::parse(R"([{"type": "ActivationReady", "age_s": 2.5}])");
  const json events = json::parse(R"({"lost": 9, "events": [{"kind": "handled", "text": "OlderMessage", "age_s": 5.0, "number": -1},
    {"kind": "state", "text": "running forward", "age_s": 3.0, "number": 7}]})");
  model_.actor("1/replica", {{"actor", json::object()}}, json());  // of an earlier question
  EXPECT_THAT(screen(), HasSubstr("asking"));
  model_.actor("0/stage", {{"actor", row}}, events);
  EXPECT_THAT(screen(), AllOf(HasSubstr("8 sent = 5 handled + 0\n    dead + 3 waiting"), HasSubstr("ActivationReady"), HasSubstr("running forward 7"), HasSubstr("9 older ones lost")));
  EXPECT_LT(screen().find("running forward 7"), screen().find("OlderMessage"));
  model_.actor("0/stage", {}, {}, "there is no actor 0/stage");
  EXPECT_THAT(screen(), AllOf(HasSubstr("NOT THERE: there is no actor"), HasSubstr("ActivationReady")));
  model_.key(kEscape);
  EXPECT_EQ(model_.opened(), "");
  EXPECT_THAT(screen(), HasSubstr("[2 actors]"));
}

TEST_F(TopModel, PausingStopsThePictureOnly) {
  model_.frame(staged_frame(), kNow_s);
  model_.key('p');
  auto frame = staged_frame(1);
  frame["ranks"][0]["actors"][0]["name"] = "newcomer";
  model_.frame(frame, kNow_s + 1);
  EXPECT_THAT(screen({}, kNow_s + 1), AllOf(HasSubstr("PAUSED"), Not(HasSubstr("newcomer"))));
  model_.key(' ');
  EXPECT_THAT(screen({}, kNow_s + 1), AllOf(Not(HasSubstr("PAUSED")), HasSubstr("newcomer")));
}

TEST_F(TopModel, TrainingComesFromWhicheverRankHasIt) {
  model_.frame(staged_frame(), kNow_s);
  EXPECT_THAT(screen(), Not(HasSubstr("loss")));
  auto frame = with_training(staged_frame(), 120);
  std::swap(frame["ranks"][0]["training"], frame["ranks"][1]["training"]);
  model_.frame(frame, kNow_s);
  EXPECT_THAT(screen(), HasSubstr("step 120/1000  loss 2.346  12.3k tok/s  mfu 41%  a step 500 ms"));
  model_.frame(staged_frame(1), kNow_s + 5);
  EXPECT_THAT(screen({}, kNow_s + 5), HasSubstr("last heard 5.0 s ago: step 120/1000"));
}

TEST_F(TopModel, WhatATrainingLacksIsNotShown) {
  auto frame = staged_frame();
  frame["ranks"][0]["training"] = {{"step", 3}};
  model_.frame(frame, kNow_s);
  EXPECT_THAT(lines(), testing::Contains("step 3"));
}

TEST_F(TopModel, AnOldPictureSaysSo) {
  model_.frame(staged_frame(), kNow_s);
  EXPECT_THAT(screen({}, kNow_s + 9), HasSubstr("no answer yet; this is 9.0 s old"));
  model_.no_answer("is process 11 stopped?");
  EXPECT_THAT(screen({}, kNow_s + 9), AllOf(HasSubstr("NO ANSWER for 9.0 s: is process 11 stopped?"), HasSubstr("loader")));
  model_.frame(staged_frame(1), kNow_s + 9);
  EXPECT_THAT(screen({}, kNow_s + 9), Not(HasSubstr("NO ANSWER")));
}

TEST_F(TopModel, TheLastPictureStaysUntilAKey) {
  model_.frame(staged_frame(), kNow_s);
  model_.job_ended(kNow_s + 1);
  EXPECT_THAT(screen({}, kNow_s + 100), AllOf(HasSubstr("THE JOB HAS ENDED"), HasSubstr("loader")));
  EXPECT_FALSE(model_.leaves());
  model_.key('x');
  EXPECT_TRUE(model_.leaves());
}

TEST_F(TopModel, FitsEveryScreen) {
  const auto check = [&](const char* what) {
    for (std::size_t rows = 0; rows < 30; ++rows) {
      for (std::size_t columns = 0; columns < 130; columns += columns < 45 ? 1 : 17) {
        const auto all = model_.lines({rows, columns}, kNow_s);
        EXPECT_LE(all.size(), rows) << what << columns;
        for (const auto& line : all) EXPECT_LE(width_of(line.text), columns) << what << rows << ": " << line.text;
      }
    }
  };
  check("nothing yet ");
  auto frame = with_training(staged_frame(), 7);
  frame["ranks"][0]["actors"][0]["name"] = "einName\033[2Jdergrößeristalsdiebreitestespalte";
  model_.frame(frame, kNow_s);
  for (const char view : {'1', '2', '3', '4', '5', '6', '?'}) {
    model_.key(view);
    check("view ");
  }
  model_.no_answer(std::string(300, 'x'));
  check("no answer ");
  model_.key('2');
  screen();
  model_.key(kEnter);
  model_.actor(model_.opened(), {{"actor", staged_actor("stage", 3, 2.5, 5, 2)}}, json());
  check("an actor ");
}

TEST_F(TopModel, LongTextsAreReadByPages) {
  model_.key('?');
  EXPECT_THAT(screen({12, 80}), HasSubstr("lines more: Page Down"));
  for (int page = 0; page < 5; ++page) {
    model_.key(kPageDown);
    screen({12, 80});
  }
  EXPECT_THAT(screen({12, 80}), AllOf(HasSubstr("share of the time in handlers"), Not(HasSubstr("lines more"))));
}

TEST_F(TopModel, AnswersOfNoShapeAreShownAsNothing) {
  for (const char* text : {"{}", R"({"ranks": 3})", R"({"ranks": [1, null, {"actors": [7], "edges": "x"}], "job": 4, "waits": []})"}) {
    model_.frame(json::parse(text), kNow_s);
    for (const char view : {'1', '2', '3', '4', '5', '6'}) {
      model_.key(view);
      EXPECT_FALSE(screen().empty()) << text;
    }
  }
}

}  // namespace
}  // namespace troupe::top
