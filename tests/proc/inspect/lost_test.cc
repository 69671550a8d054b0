// A job that has lost a rank or an actor, and goes on: what is lost is named, what is left adds up.
#include "comm/join/socket.h"
#include "tests/proc/inspect/inspect_fixture.h"
#include "tests/proc/inspect/lossy_graph.h"

namespace troupe::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::chrono::seconds kAtOnce{2};  // of which the ranks have a quarter to answer

class InspectLost : public Inspect {
 protected:
  static int free_port() {
    const auto listener = comm::listen_at(0, true);
    const int port = comm::port_of(*listener);
    close(*listener);
    return port;
  }
  // A rank of which nobody else's launcher knows, so that nobody ends it when another is gone.
  std::unique_ptr<ToolProcess> rank(int number, int port) const {
    const std::string here = std::to_string(number);
    return std::make_unique<ToolProcess>(
        std::vector<std::string>{"launch", "--nproc", "1", "--", "env", "-u", "TROUPE_RANK", "-u", "TROUPE_WORLD_SIZE", "-u", "TROUPE_LOCAL_RANK", "-u",
                                 "TROUPE_LOCAL_WORLD_SIZE", "-u", "TROUPE_STORE", "-u", "TROUPE_SECRET", "RANK=" + here, "WORLD_SIZE=2", "LOCAL_RANK=" + here,
                                 "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port), LOSSY_GRAPH},
        folder());
  }
  // Asked so that it must be answered at once.
  Ended at_once(const std::vector<std::string>& words) const {
    const auto begin = std::chrono::steady_clock::now();
    auto asked = words;
    asked.insert(asked.end(), {"--patience", "0.5"});
    Ended ended = tool(asked);
    EXPECT_LE(std::chrono::steady_clock::now() - begin, kAtOnce) << testing::PrintToString(words);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return ended;
  }
  json json_at_once(std::vector<std::string> words) const {
    words.push_back("--json");
    return json::parse(at_once(words).out, nullptr, false);
  }
};

class InspectLostRank : public InspectLost, public testing::WithParamInterface<int> {};

TEST_P(InspectLostRank, IsNamedAtOnceByTheOtherWhichAnswers) {
  const int lost = GetParam(), left = 1 - lost;
  const int port = free_port();
  const auto zero = rank(0, port), one = rank(1, port);
  ASSERT_TRUE(here(2)) << zero->err() << one->err();
  json job;
  ASSERT_TRUE(wait_until([&] {  // they may not know each other yet
    job = json_of({"inspect", "job", "--json"});
    return job.contains("ranks") && job["ranks"][0]["answered"] == true && job["ranks"][1]["answered"] == true;
  }));
  ASSERT_TRUE(signal_process(job["ranks"][static_cast<std::size_t>(lost)]["pid"].get<pid_t>(), SIGKILL));
  const auto killed = std::chrono::steady_clock::now();
  const auto for_s = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count(); };

  job = json_at_once({"inspect", "job"});
  ASSERT_EQ(job["ranks"].size(), 2u);
  for (const auto& row : job["ranks"]) EXPECT_EQ(row["answered"], row["rank"] == left) << row;
  const json& gone = job["ranks"][static_cast<std::size_t>(lost)];
  EXPECT_GT(gone["silent_s"], 0) << gone;
  EXPECT_LE(gone["silent_s"].get<double>(), for_s()) << gone;
  EXPECT_NE(gone["error"], "") << gone;

  const json actors = json_at_once({"inspect", "actors"});
  ASSERT_EQ(actors["unanswered"].size(), 1u) << actors["unanswered"];
  EXPECT_EQ(actors["unanswered"][0]["rank"], lost);
  EXPECT_GE(actors["unanswered"][0]["silent_s"], gone["silent_s"]) << "the same silence";
  ASSERT_FALSE(actors["actors"].empty());
  for (const auto& row : actors["actors"]) EXPECT_EQ(row["rank"], left) << row;

  const std::string why = "rank " + std::to_string(lost) + ": silent for ";
  EXPECT_THAT(at_once({"inspect", "waits"}).out, HasSubstr(why));
  const json waits = json_at_once({"inspect", "waits"});
  const std::string id = std::to_string(lost) + "/";
  bool is_root = false;
  for (const auto& root : waits["roots"]) is_root = is_root || root["id"] == id;
  EXPECT_TRUE(is_root) << waits;
  if (left == 0) {
    bool waited_for = false;
    for (const auto& edge : waits["edges"]) waited_for = waited_for || (edge["from"] == "0/listener" && edge["to"] == id);
    EXPECT_TRUE(waited_for) << waits;
  }

  const std::string row = "rank " + std::to_string(lost) + " did not answer: ";
  EXPECT_THAT(tool({"inspect", "job"}).out, HasSubstr("silent for "));  // first, where a narrow table cuts the rest
  Ended text = tool({"inspect", "actors"});
  EXPECT_THAT(text.out, testing::AllOf(HasSubstr(row), HasSubstr("; silent for ")));
  if (lost == 0) return;  // the store was in it
  // The store tells the others that it has not only fallen silent.
  EXPECT_TRUE(wait_until([&] {
    text = tool({"inspect", "actors"});
    return text.out.find(row) != std::string::npos && text.out.find("no answer within") == std::string::npos;
  }, std::chrono::seconds(10))) << text.out;
}
INSTANTIATE_TEST_SUITE_P(, InspectLostRank, testing::Values(1, 0), [](const auto& tested) { return "Rank" + std::to_string(tested.param); });

class InspectLostActor : public InspectLost {
 protected:
  // All has been sent, and `fragile` and who depended on it have ended; two looks, of which one may fall between two counts, are the same.
  bool is_at_rest(json& ranks) const {
    return wait_until([&] {
      const json before = counts_of(ranks);
      ranks = json_of({"inspect", "dead", "--json"}).value("ranks", json::array());
      if (before != counts_of(ranks)) return false;
      if (ranks.size() != 2 || ranks[0]["answered"] == false || ranks[1]["answered"] == false) return false;
      const json chatter = named(ranks[1]["actors"], "chatter"), edge = edge_into(ranks[1], "fragile.in");
      return chatter.value("number", 0) == kNotes && edge.value("delivered", 0) == kParcels && !named(ranks[1]["tombstones"], "heir").empty();
    });
  }
  static json counts_of(const json& ranks) {
    json counts = json::array();
    for (const auto& rank : ranks) {
      for (const auto& actor : rank.value("actors", json::array())) counts.push_back({actor["name"], actor["sent"], actor["handled"], actor["dead"], actor["number"]});
      for (const auto& edge : rank.value("edges", json::array())) counts.push_back({edge["name"], edge["sent"], edge["delivered"], edge["free"], edge["in_flight"]});
    }
    return counts;
  }
  static json named(const json& rows, const std::string& name) {
    for (const auto& row : rows) {
      if (row["name"] == name) return row;
    }
    return json::object();
  }
  static json edge_into(const json& rank, const std::string& to) {
    for (const auto& edge : rank["edges"]) {
      if (edge["to"] == to) return edge;
    }
    return json::object();
  }
  static std::int64_t sum(const json& rows, const std::string& key, const std::string& type = "") {
    std::int64_t sum = 0;
    for (const auto& row : rows) {
      if (row["type"].get<std::string>().find(type) != std::string::npos) sum += row[key].get<std::int64_t>();
    }
    return sum;
  }
};

// Each number by somebody else: the senders' own counts, the edges' of both ranks, the receivers' by type, what lies in mailboxes.
TEST_F(InspectLostActor, CountsAddUpOverARunWithACrash) {
  ToolProcess job({"launch", "--nproc", "2", "--", LOSSY_GRAPH}, folder());
  json ranks;
  ASSERT_TRUE(is_at_rest(ranks)) << ranks.dump(1) << job.err();
  for (const auto& rank : ranks) {
    for (const auto& row : rank["actors"])
      EXPECT_EQ(row["sent"], sum(row["messages"], "handled") + sum(row["dead_letters"], "count") + static_cast<std::int64_t>(row["waiting"].size())) << row;
    for (const auto& stone : rank["tombstones"]) EXPECT_EQ(stone["sent"].get<std::int64_t>(), stone["handled"].get<std::int64_t>() + sum(stone["dead_letters"], "count")) << stone;
    for (const auto& edge : rank["edges"]) {
      EXPECT_EQ(edge["free"].get<int>() + edge["in_flight"].get<int>(), edge["capacity"]) << edge;
      EXPECT_EQ(edge["sent"], edge["delivered"]) << edge;
    }
  }
  const json worker = named(ranks[1]["actors"], "worker"), stone = named(ranks[1]["tombstones"], "fragile");
  EXPECT_THAT(stone["cause"].get<std::string>(), HasSubstr("planted"));
  // What was sent to the one that broke, by the notes' sender and by the edge; all that it has not handled is dead.
  const std::int64_t dead_notes = sum(stone["dead_letters"], "count", "Note"), dead_parcels = sum(stone["dead_letters"], "count", "Parcel");
  const int sent = kNotes + edge_into(ranks[1], "fragile.in")["sent"].get<int>();
  EXPECT_EQ(stone["sent"].get<int>() - sent, stone["handled"].get<int>() - kCrashAt) << "beside these it has handled what the system told it";
  EXPECT_EQ(kNotes + kParcels, kCrashAt + dead_notes + dead_parcels);
  EXPECT_GT(dead_notes + dead_parcels, 0);
  EXPECT_EQ(edge_into(ranks[1], "fragile.in")["sent"], kParcels);
  // The one that lives has handled all.
  EXPECT_EQ(sum(worker["messages"], "handled", "Note"), kNotes);
  EXPECT_EQ(sum(worker["messages"], "handled", "Parcel"), kParcels);
  // The edge between the ranks, as both have counted it.
  EXPECT_EQ(edge_into(ranks[0], "parcels@1.in")["sent"], kParcels);
  EXPECT_EQ(edge_into(ranks[1], "worker.in")["sent"], kParcels);
  EXPECT_EQ(edge_into(ranks[1], "worker.in")["delivered"], kParcels);
  job.signal(SIGTERM);
  job.wait();
}

TEST_F(InspectLostActor, PeekShowsItsLastEventsAndTheChainOfCauses) {
  ToolProcess job({"launch", "--nproc", "2", "--", LOSSY_GRAPH}, folder());
  json ranks;
  ASSERT_TRUE(is_at_rest(ranks)) << ranks.dump(1) << job.err();
  const json heir = json_of({"inspect", "peek", "1/heir", "--json"});
  EXPECT_EQ(heir["actor"]["state"], "ended") << heir;
  ASSERT_FALSE(heir["events"].empty());
  EXPECT_EQ(heir["events"].back()["kind"], "ended") << heir;
  const json stone = heir["tombstone"];
  EXPECT_EQ(stone["rank"], 1);
  EXPECT_THAT(stone["cause"].get<std::string>(), HasSubstr("nothing is left to inherit"));
  EXPECT_EQ(stone["chain"], json({"fragile: planted", "heir: nothing is left to inherit"}));
  const Ended text = tool({"inspect", "peek", "1/heir"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, testing::AllOf(HasSubstr("1/heir: ended"), HasSubstr("\n  because of fragile: planted\n")));
  EXPECT_TRUE(json_of({"inspect", "peek", "1/worker", "--json"})["tombstone"].is_null()) << "it lives";
  job.signal(SIGTERM);
  job.wait();
}

}  // namespace
}  // namespace troupe::test
