// What `troupe inspect` filters and sorts by, of staged rows.
#include "tools/troupe/actor_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace troupe::tool {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json rows() {
  return json::parse(R"([
    {"rank": 0, "name": "ledger", "state": "waiting_for_input", "from": "loss", "depth": 0, "oldest_s": 50, "handling_s": 9},
    {"rank": 0, "name": "stage-0", "state": "running", "depth": 2, "oldest_s": 1, "handling_s": 5},
    {"rank": 1, "name": "stage-0", "state": "waiting_for_credit", "depth": 1, "oldest_s": 4, "handling_s": 7},
    {"rank": 1, "name": "stage-10", "state": "idle", "depth": 0, "oldest_s": 0, "handling_s": 0}])");
}
std::vector<std::string> ids(const json& rows) {
  std::vector<std::string> all;
  for (const auto& row : rows) all.push_back(row["rank"].dump() + "/" + row["name"].get<std::string>());
  return all;
}
std::vector<std::string> in_states(const std::string& states) {
  json some = rows();
  return choose_states(some, states).ok() ? ids(some) : std::vector<std::string>{"error"};
}
std::vector<std::string> called(const std::string& pattern) {
  json some = rows();
  return choose_actors(some, pattern).ok() ? ids(some) : std::vector<std::string>{"error"};
}
std::vector<std::string> sorted(const std::string& by, json some = rows()) {
  sort_actors(some, by);
  return ids(some);
}
std::string error_of(const Status& status) { return std::string(status.message()); }

TEST(ActorRows, AreChosenByState) {
  EXPECT_THAT(in_states("running"), ElementsAre("0/stage-0"));
  EXPECT_THAT(in_states("waiting"), ElementsAre("0/ledger", "1/stage-0"));
  EXPECT_THAT(in_states("waiting-for-credit,idle"), ElementsAre("1/stage-0", "1/stage-10"));
  EXPECT_THAT(in_states("ended"), ElementsAre());
  json some = rows();
  EXPECT_THAT(error_of(choose_states(some, "runing")), HasSubstr("there is no state 'runing'; did you mean running?"));
  EXPECT_EQ(some, rows());
}

TEST(ActorRows, AreChosenByName) {
  EXPECT_THAT(called("stage-0"), ElementsAre("0/stage-0", "1/stage-0"));
  EXPECT_THAT(called("1/stage-0"), ElementsAre("1/stage-0"));
  EXPECT_THAT(called("stage-1"), ElementsAre("1/stage-10"));  // how it begins
  EXPECT_THAT(called("stage*"), ElementsAre("0/stage-0", "1/stage-0", "1/stage-10"));
  EXPECT_THAT(called("1/*"), ElementsAre("1/stage-0", "1/stage-10"));
  json some = rows();
  EXPECT_THAT(error_of(choose_actors(some, "stgae-0")), HasSubstr("no actor is called stgae-0; did you mean stage-0?"));
  EXPECT_THAT(error_of(choose_actors(some, "1/leger")), HasSubstr("did you mean 0/ledger?"));
  EXPECT_THAT(error_of(choose_actors(some, "x*")), HasSubstr("no actor is called x*; troupe inspect actors"));
}

TEST(ActorRows, OfEdgesEitherEndIsMeant) {
  json edges = json::parse(R"([{"rank": 0, "from": "loader.out", "to": "stage-0.in"}, {"rank": 0, "from": "stage-0.out", "to": "loss.in"}, {"rank": 0, "from": "a.out", "to": "b.in"}])");
  EXPECT_TRUE(choose_actors(edges, "stage-0").ok());
  EXPECT_EQ(edges.size(), 2u);
  EXPECT_THAT(error_of(choose_actors(edges, "lader")), HasSubstr("did you mean loader?"));
}

TEST(ActorRows, AreSortedByWhatIsMost) {
  EXPECT_EQ(sorted("depth").front(), "0/stage-0");
  EXPECT_EQ(sorted("busy").front(), "0/ledger");
  EXPECT_THAT(sorted("age"), ElementsAre("1/stage-0", "0/stage-0", "0/ledger", "1/stage-10"));  // the ledger's oldest is of a mailbox that is empty now
}

TEST(ActorRows, GrowthIsOfTwoLooks) {
  json now = rows();
  now[3]["depth"] = 8;
  now[1]["depth"] = 1;
  add_growth(now, rows(), 2);
  EXPECT_EQ(now[3]["growth_per_s"], 4.0);
  EXPECT_EQ(now[1]["growth_per_s"], -0.5);
  EXPECT_THAT(sorted("growth", now), ElementsAre("1/stage-10", "0/ledger", "1/stage-0", "0/stage-0"));
  json known = rows();
  known[0]["growth_per_s"] = 7.5;
  add_growth(known, rows(), 1);
  EXPECT_EQ(known[0]["growth_per_s"], 7.5);
}

}  // namespace
}  // namespace troupe::tool
