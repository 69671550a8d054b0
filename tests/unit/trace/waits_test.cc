#include "runtime/trace/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trace/json.h"

namespace troupe::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr std::int64_t kSecond = 1'000'000'000;

// A rank as its report would show it.
struct Staged {
  explicit Staged(int rank) { report.rank = rank; }
  Staged& actor(const std::string& name, State state, const std::string& detail = "", std::int64_t number = -1, std::int64_t since_s = 12) {
    report.snapshot.actors.push_back({.name = name, .state = state, .detail = detail, .number = number, .since_ns = since_s * kSecond});
    return *this;
  }
  Staged& from(const std::string& actor) {  // of the last actor's state
    report.snapshot.actors.back().from = actor;
    return *this;
  }
  Staged& with_messages(std::int64_t depth) {
    report.snapshot.actors.back().depth = depth;
    return *this;
  }
  Staged& edge(const std::string& from, const std::string& to, int from_rank = -1, int to_rank = -1) {
    report.snapshot.edges.push_back({.name = from + " -> " + to, .from = from, .to = to, .from_rank = from_rank, .to_rank = to_rank});
    return *this;
  }
  Staged& collective(CollectiveRow row) {
    report.collectives.push_back(std::move(row));
    return *this;
  }
  operator RankReport() const { return report; }  // NOLINT: a list of them is a list of reports
  RankReport report;
};

WaitGraph graph_of(const std::vector<RankReport>& ranks) { return wait_graph(ranks); }

std::vector<std::string> ids(const WaitGraph& graph, const std::vector<int>& nodes) {
  std::vector<std::string> result;
  for (const int node : nodes) result.push_back(id(graph.nodes[static_cast<std::size_t>(node)]));
  return result;
}
std::vector<std::string> waits(const WaitGraph& graph) {
  std::vector<std::string> result;
  for (const auto& edge : graph.edges) {
    const auto ends = ids(graph, {edge.from, edge.to});
    result.push_back(ends[0] + " > " + ends[1] + ": " + edge.why);
  }
  return result;
}

// Over two ranks whose edges are joined by actors that stand for the far ends, as a training job has them.
TEST(WaitGraph, NamesACycleOfThreeOverTwoRanks) {
  auto graph = graph_of({
      Staged(0)
          .actor("a", State::kWaitingForCredit, "b.in@1.in")
          .actor("b.in@1", State::kRunning, "", 7)
          .actor("c", State::kWaitingForCredit, "a.in")
          .actor("c.in@1", State::kIdle)
          .edge("a.out", "b.in@1.in")
          .edge("c.in@1.out", "c.in")
          .edge("c.out", "a.in"),
      Staged(1)
          .actor("b.in@0", State::kIdle)
          .actor("b", State::kWaitingForCredit, "c.in@0.in", -1, 13)
          .actor("c.in@0", State::kRunning, "", 7)
          .edge("b.in@0.out", "b.in")
          .edge("b.out", "c.in@0.in"),
  });
  EXPECT_THAT(waits(graph),
              UnorderedElementsAre("0/a > 1/b: credit of b.in@1.in", "0/c > 0/a: credit of a.in", "1/b > 0/c: credit of c.in@0.in"));
  ASSERT_EQ(graph.cycles.size(), 1u);
  EXPECT_THAT(ids(graph, graph.cycles[0]), ElementsAre("0/a", "1/b", "0/c"));
  EXPECT_THAT(graph.roots, IsEmpty());
  EXPECT_EQ(to_text(graph),
            "a cycle of 3: none of these can go on\n"
            "  rank 0 a waits for credit of b.in@1.in for 12.000 s, so for rank 1 b\n"
            "  rank 1 b waits for credit of c.in@0.in for 13.000 s, so for rank 0 c\n"
            "  rank 0 c waits for credit of a.in for 12.000 s, so for rank 0 a\n");
  graph.nodes[static_cast<std::size_t>(graph.cycles[0][1])].last_events.push_back({.kind = EventKind::kHandled, .text = "Token", .at_ns = 13 * kSecond});
  EXPECT_THAT(to_text(graph), testing::HasSubstr("so for rank 0 c\n    13.000 s ago: handled Token\n  rank 0 c waits"));
}

// Where the rows themselves say in which rank an end is.
TEST(WaitGraph, FollowsEdgesThatEndInAnotherRank) {
  const auto graph = graph_of({
      Staged(0)
          .actor("a", State::kWaitingForCredit, "a.out -> b.in")
          .actor("c", State::kWaitingForInput, "in")
          .edge("a.out", "b.in", -1, 1)
          .edge("b.out", "c.in", 1, -1),
      Staged(1).actor("b", State::kHandling, "Number", -1, 5),
  });
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/a > 1/b: credit of a.out -> b.in", "0/c > 1/b: input from in"));
  EXPECT_THAT(ids(graph, graph.roots), ElementsAre("1/b"));
}

TEST(WaitGraph, FindsTheSenderOfAPortThroughWhatStandsForIt) {
  const auto graph = graph_of({
      Staged(0)
          .actor("stage-0", State::kRunning, "forward", 3)
          .actor("stage-1.activation@1", State::kIdle)
          .edge("stage-0.activation_out", "stage-1.activation@1.in"),
      Staged(1)
          .actor("stage-1.activation@0", State::kIdle)
          .actor("stage-1", State::kWaitingForInput, "activation")
          .edge("stage-1.activation@0.out", "stage-1.activation"),
  });
  EXPECT_THAT(waits(graph), ElementsAre("1/stage-1 > 0/stage-0: input from activation"));
}

TEST(WaitGraph, NamesTheStragglerOfAnAllReduce) {
  const auto entered = [](std::vector<int> missing) {
    return CollectiveRow{.group = "replicas",
                         .sequence = 17,
                         .what = "gradient of block 3",
                         .since_ns = kSecond,
                         .entered = {0, 1},
                         .missing = std::move(missing)};
  };
  const auto graph = graph_of({
      Staged(0).actor("replicas", State::kWaitingForCollective, "gradient of block 3", 17).collective(entered({1, 2})),
      Staged(1).actor("replicas", State::kWaitingForCollective, "gradient of block 3", 17).collective(entered({2})),
      Staged(2).actor("device", State::kRunning, "backward", 4, 30).actor("replicas", State::kIdle),
  });
  // rank 1 has entered it: what rank 0 misses of it is on its way
  const std::string why = "collective gradient of block 3 (17 of replicas)";
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/replicas > 2/replicas: " + why, "1/replicas > 2/replicas: " + why));
  EXPECT_THAT(graph.cycles, IsEmpty());
  EXPECT_THAT(ids(graph, graph.roots), ElementsAre("2/replicas", "2/device"));
  EXPECT_EQ(to_text(graph),
            "collective gradient of block 3 (17 of replicas): not entered by rank 2; rank 0, 1 wait for 12.000 s\n"
            "root: rank 2 replicas: idle for 12.000 s\n"
            "  rank 0 replicas waits for collective gradient of block 3 (17 of replicas)\n"
            "  rank 1 replicas waits for collective gradient of block 3 (17 of replicas)\n"
            "root: rank 2 device: running backward 4 for 30.000 s\n");
}

TEST(WaitGraph, SeesGroupsThatAreEnteredInDifferentOrders) {
  const auto open = [](const std::string& group, int missing) {
    return CollectiveRow{.group = group, .sequence = 5, .what = "sum", .missing = {missing}};
  };
  const auto graph = graph_of({
      Staged(0).actor("g", State::kWaitingForCollective, "sum", 5).actor("h", State::kWaitingForInput, "g").collective(open("g", 1)),
      Staged(1).actor("g", State::kWaitingForInput, "h").actor("h", State::kWaitingForCollective, "sum", 5).collective(open("h", 0)),
  });
  ASSERT_EQ(graph.cycles.size(), 1u);
  EXPECT_THAT(ids(graph, graph.cycles[0]), ElementsAre("0/g", "1/g", "1/h", "0/h"));
}

TEST(WaitGraph, WaitsForTheRankWhereNoActorIsInFrontOfTheGroup) {
  const auto graph = graph_of({
      Staged(0)
          .actor("front", State::kWaitingForCollective, "said otherwise")
          .collective({.group = "front", .sequence = 1, .what = "barrier", .missing = {1, 5}}),
      Staged(1),
  });
  EXPECT_THAT(waits(graph),
              UnorderedElementsAre("0/front > 1/: collective barrier (1 of front)", "0/front > 5/: collective barrier (1 of front)"));
  EXPECT_THAT(to_text(graph), HasSubstr("root: rank 1: answers, and has not given or entered what others wait for"));
  EXPECT_THAT(to_text(graph), HasSubstr("root: rank 5: was not asked"));
}

// Rank 0 was asked when it had not yet entered what rank 1 waited for, and rank 1 a moment earlier or later.
TEST(WaitGraph, NamesNoCircleOfWaitsThatMayNeverHaveBeenAtTheSameTime) {
  const auto ranks = [](std::int64_t asking_ns) {
    std::vector<RankReport> reports{
        Staged(0).actor("a", State::kWaitingForInput, "x", -1, 12).from("b@1").actor("c", State::kWaitingForInput, "y", -1, 30).from("a"),
        Staged(1).actor("b", State::kWaitingForInput, "z", -1, 3).from("a@0"),
    };
    reports[1].after_ns = asking_ns;
    return reports;
  };
  EXPECT_EQ(graph_of(ranks(3 * kSecond)).cycles.size(), 1u);
  const auto graph = graph_of(ranks(3 * kSecond + 1));
  EXPECT_THAT(graph.cycles, IsEmpty());
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/a > 1/b: x", "0/c > 0/a: y", "1/b > 0/a: z"));
  for (const auto& edge : graph.edges) EXPECT_EQ(edge.is_young, edge.why == "z") << edge.why;
  EXPECT_THAT(ids(graph, graph.roots), ElementsAre("1/b"));
  EXPECT_EQ(root_text(graph.nodes[static_cast<std::size_t>(graph.roots[0])]), "waiting for z from a@0 for 3.000 s");
}

// Half of the ranks were asked before the other half went on to the next collective: very many circles, and none.
TEST(WaitGraph, FindsThatOfVeryManyCirclesNoneIsSure) {
  constexpr int kHalf = 100;
  std::vector<int> first, second;
  for (int rank = 0; rank < kHalf; ++rank) first.push_back(rank), second.push_back(kHalf + rank);
  std::vector<RankReport> ranks;
  for (int rank = 0; rank < 2 * kHalf; ++rank) {
    const bool early = rank < kHalf;
    ranks.push_back(Staged(rank).actor("replicas", State::kWaitingForCollective, "gradient", early ? 7 : 8, 0).collective(
        {.group = "replicas", .sequence = early ? 7 : 8, .what = "gradient", .entered = early ? first : second, .missing = early ? second : first}));
    ranks.back().after_ns = kSecond;
  }
  const auto graph = graph_of(ranks);
  EXPECT_THAT(graph.cycles, IsEmpty());
  EXPECT_EQ(graph.edges.size(), 2u * kHalf * kHalf);
  for (auto& rank : ranks) rank.after_ns = 0;
  EXPECT_FALSE(graph_of(ranks).cycles.empty());
}

TEST(WaitGraph, LeadsFromTheLedgerToASlowLoader) {
  auto graph = graph_of({
      Staged(0)
          .actor("ledger", State::kWaitingForInput, "stage-0", 9)
          .actor("stage-0", State::kWaitingForInput, "batch")
          .actor("source", State::kRunning, "", 9, 45)
          .actor("evaluator", State::kIdle)
          .edge("source.batches", "stage-0.batch"),
      Staged(1).actor("replica", State::kWaitingForInput, "ledger@0").actor("ledger@0", State::kIdle),
  });
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/ledger > 0/stage-0: input from stage-0", "0/stage-0 > 0/source: input from batch",
                                                 "1/replica > 0/ledger: input from ledger@0"));
  EXPECT_THAT(ids(graph, graph.roots), ElementsAre("0/source"));
  EXPECT_THAT(ids(graph, graph.chain), ElementsAre("0/ledger", "0/stage-0", "0/source"));
  graph.nodes[static_cast<std::size_t>(graph.roots[0])].last_events.push_back(
      {.kind = EventKind::kHandled, .text = "OpenStep", .at_ns = kSecond, .number = 2});
  EXPECT_EQ(to_text(graph),
            "root: rank 0 source: running 9 for 45.000 s\n"
            "  rank 0 stage-0 waits for input from batch\n"
            "  1.000 s ago: handled OpenStep\n"
            "from the ledger: rank 0 ledger -> rank 0 stage-0 -> rank 0 source\n");
}

TEST(WaitGraph, FollowsWhatAnActorWaitsForByAWordToTheActorItNames) {
  const auto graph = graph_of({
      Staged(0)
          .actor("ledger", State::kWaitingForInput, "loss", 9).from("replica@1")
          .actor("replica@1", State::kIdle)
          .actor("shard-0", State::kReady).from("device")
          .actor("device", State::kWaitingForInput).from("weights-0")
          .actor("weights-0", State::kWaitingForInput, "weights", 3).from("@1")
          .actor("weights-1", State::kWaitingForInput, "weights", 3).from("@0"),
      Staged(1)
          .actor("replica", State::kWaitingForInput, "loss", 9).from("stage-1")
          .actor("stage-1", State::kHandling, "Activation", -1, 40),
  });
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/ledger > 1/replica: loss", "1/replica > 1/stage-1: loss", "0/shard-0 > 0/device: a turn",
                                                 "0/device > 0/weights-0: input", "0/weights-0 > 1/: weights", "0/weights-1 > 0/: weights"));
  EXPECT_THAT(ids(graph, graph.chain), ElementsAre("0/ledger", "1/replica", "1/stage-1"));
  EXPECT_EQ(doing(State::kWaitingForInput, "loss", "replica@1", 9), "waiting for loss 9 from replica@1");
  EXPECT_EQ(doing(State::kWaitingForInput, "weights", "@1", 3), "waiting for weights 3 from rank 1");
  EXPECT_EQ(doing(State::kReady, "", "device", -1), "ready for a turn on device");
  EXPECT_EQ(doing(State::kWaitingForInput, "batch", "", -1), "waiting for input from batch");
}

// The answer may be among them, so that it waits for its turn only: no circle is made of that.
TEST(WaitGraph, WhoHasMessagesDoesNotWaitForAnotherActorsInput) {
  const auto graph = graph_of({
      Staged(0)
          .actor("a", State::kWaitingForInput, "x").from("b").with_messages(1)
          .actor("b", State::kWaitingForInput, "y").from("a"),
  });
  EXPECT_THAT(waits(graph), ElementsAre("0/b > 0/a: y"));
  EXPECT_THAT(graph.cycles, IsEmpty());
}

TEST(WaitGraph, KnowsNobodyToBlameForACollectiveThatHasJustEnded) {
  const auto graph = graph_of({Staged(0).actor("replicas", State::kWaitingForCollective, "gradient of block 3", 41)});
  EXPECT_THAT(waits(graph), IsEmpty());
  EXPECT_THAT(to_text(graph), Not(HasSubstr("is called so")));
}

// Rank 1's shard has not asked for it: its stage has no batch. The one in front of the group there has nothing to do with that.
TEST(WaitGraph, FindsWhoWouldHaveToAskForACollective) {
  const CollectiveRow open{.group = "replicas", .sequence = 17, .what = "gradient of block 3", .entered = {0}, .missing = {1}};
  const auto graph = graph_of({
      Staged(0)
          .actor("shard-3", State::kWaitingForCollective, "gradient of block 3", 17).from("replicas")
          .actor("replicas", State::kWaitingForCollective, "gradient of block 3", 17)
          .collective(open),
      Staged(1)
          .actor("shard-3", State::kWaitingForInput, "gradient", 4).from("stage-0")
          .actor("replicas", State::kIdle)
          .actor("stage-0", State::kWaitingForInput, "batch")
          .actor("source", State::kRunning, "read", 4, 50)
          .edge("source.batch-0", "stage-0.batch"),
  });
  const std::string why = "collective gradient of block 3 (17 of replicas)";
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/shard-3 > 1/shard-3: " + why, "0/replicas > 1/shard-3: " + why, "1/shard-3 > 1/stage-0: gradient",
                                                 "1/stage-0 > 1/source: input from batch"));
  EXPECT_THAT(ids(graph, graph.roots), ElementsAre("1/source"));
  EXPECT_THAT(to_text(graph), HasSubstr(why + ": not entered by rank 1; rank 0 waits"));
  // Asked for, and not begun: it waits for the one in front of the group.
  const auto asked = graph_of({Staged(0).actor("shard-3", State::kWaitingForCollective, "gradient of block 3", 17).from("replicas").actor("replicas", State::kHandling, "CollectiveRequested")});
  EXPECT_THAT(waits(asked), ElementsAre("0/shard-3 > 0/replicas: collective gradient of block 3"));
}

TEST(WaitGraph, BlamesARankThatGivesNoAnswer) {
  const RankReport silent{.rank = 1, .answered = false, .error = "no answer within 1.0 s", .silent_s = 8};
  const auto graph = graph_of({
      Staged(0)
          .actor("stage-0", State::kWaitingForCredit, "stage-1.activation@1.in")
          .actor("stage-1.activation@1", State::kIdle)
          .actor("replicas", State::kWaitingForCollective, "loss", 3)
          .actor("ledger", State::kWaitingForInput, "replica@1")
          .actor("replica@1", State::kIdle)
          .edge("stage-0.activation_out", "stage-1.activation@1.in")
          .collective({.group = "replicas", .sequence = 3, .what = "loss", .missing = {1}}),
      silent,
  });
  EXPECT_THAT(waits(graph),
              UnorderedElementsAre("0/stage-0 > 1/: credit of stage-1.activation@1.in", "0/replicas > 1/: collective loss (3 of replicas)",
                                   "0/ledger > 1/: input from replica@1"));
  EXPECT_THAT(ids(graph, graph.roots), ElementsAre("1/"));
  EXPECT_THAT(to_text(graph), HasSubstr("root: rank 1: silent for 8.000 s: no answer within 1.0 s\n"));
  EXPECT_THAT(ids(graph_of({Staged(0), silent}), graph_of({Staged(0), silent}).roots), ElementsAre("1/"));  // though nobody waits for it
}

TEST(WaitGraph, FindsAnActorThatOneOtherRankHas) {
  const auto graph = graph_of({
      Staged(0).actor("ledger", State::kWaitingForInput, "loader").actor("twins", State::kWaitingForInput, "replica"),
      Staged(1).actor("loader", State::kHandling, "Read").actor("replica", State::kIdle),
      Staged(2).actor("replica", State::kIdle),
  });
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/ledger > 1/loader: input from loader", "0/twins > 0/?replica: input from replica"));
}

TEST(WaitGraph, LeadsFromTheLedgerIntoACycle) {
  const auto graph = graph_of({
      Staged(0)
          .actor("ledger", State::kWaitingForInput, "a")
          .actor("a", State::kWaitingForInput, "b")
          .actor("b", State::kWaitingForInput, "c")
          .actor("c", State::kWaitingForInput, "b"),
  });
  EXPECT_THAT(ids(graph, graph.chain), ElementsAre("0/ledger", "0/a", "0/b"));
  EXPECT_THAT(to_text(graph), HasSubstr("from the ledger: rank 0 ledger -> rank 0 a -> rank 0 b\n"));
}

TEST(WaitGraph, LeadsToTheWriterOfACheckpoint) {
  const auto graph = graph_of({
      Staged(0).actor("ledger", State::kWaitingForInput, "checkpoint-writer", 40).actor("checkpoint-writer", State::kRunning, "", 40, 90),
  });
  EXPECT_THAT(ids(graph, graph.chain), ElementsAre("0/ledger", "0/checkpoint-writer"));
  EXPECT_THAT(to_text(graph), HasSubstr("root: rank 0 checkpoint-writer: running 40 for 90.000 s"));
}

// Two writers that know each other: in either rank there is one that only stands for the other.
TEST(WaitGraph, IsNotLedAstrayByWhatStandsForWhoWaits) {
  const WaitGraph graph = graph_of({Staged(0).actor("ledger", State::kWaitingForInput, "save").from("writer").actor("writer", State::kWaitingForInput, "file", 3).from("writer@1").actor("writer@1", State::kIdle),
                                    Staged(1).actor("writer", State::kRunning, "file", 3).actor("writer@0", State::kIdle)});
  EXPECT_THAT(ids(graph, graph.chain), ElementsAre("0/ledger", "0/writer", "1/writer"));
}

TEST(WaitGraph, NamesWhatNobodyIsCalledAndWhoHasEnded) {
  Staged rank(0);
  rank.actor("a", State::kWaitingForInput, "loss")
      .actor("b", State::kWaitingForCredit, "gone.in")
      .actor("c", State::kWaitingForEvent, "copy")
      .actor("d", State::kWaitingForInput)
      .edge("b.out", "gone.in");
  rank.report.snapshot.at_ns = 10 * kSecond;
  rank.report.snapshot.tombstones.push_back({.name = "gone", .cause = "INTERNAL: broke", .at_ns = 4 * kSecond});
  const auto graph = graph_of({rank});
  EXPECT_THAT(waits(graph), UnorderedElementsAre("0/a > 0/?loss: input from loss", "0/b > 0/gone: credit of gone.in"));
  EXPECT_THAT(to_text(graph), HasSubstr("root: rank 0 'loss': no edge and no actor is called so\n"));
  EXPECT_THAT(to_text(graph), HasSubstr("root: rank 0 gone: ended 6.000 s ago: INTERNAL: broke\n"));
}

TEST(WaitGraph, IsEmptyWhereNobodyWaits) {
  const auto graph = graph_of({Staged(0).actor("a", State::kIdle).actor("b", State::kReady).edge("a.out", "b.in")});
  EXPECT_THAT(graph.nodes, IsEmpty());
  EXPECT_EQ(to_text(graph), "nobody waits for anybody\n");
  EXPECT_EQ(to_text(graph_of({})), "nobody waits for anybody\n");
}

// Reports come from other processes: stand-ins may stand for each other, ends for nothing.
TEST(WaitGraph, EndsWhateverTheReportsSay) {
  const auto graph = graph_of({
      Staged(0).actor("x@1", State::kIdle).actor("a", State::kWaitingForCredit, "x@1.in").edge("a.out", "x@1.in").edge("x@1.out", "x@1.in"),
      Staged(1)
          .actor("x@0", State::kIdle)
          .edge("x@0.out", "x@0.in")
          .collective({.group = "", .missing = {1, -7, 1 << 30}})
          .actor("", State::kWaitingForCollective)
          .actor("y@99999999999", State::kWaitingForInput, "@")
          .edge("", "."),
  });
  EXPECT_THAT(to_text(graph), Not(IsEmpty()));
}

TEST(WaitGraph, AsJsonSpeaksOfIds) {
  const auto graph = graph_of({Staged(0).actor("a", State::kWaitingForInput, "b").actor("b", State::kRunning, "read", 3, 2)});
  EXPECT_EQ(to_json(graph),
            R"({"schema":1,"nodes":[{"id":"0/a","rank":0,"actor":"a","state":"waiting_for_input","detail":"b","from":"","number":-1,"since_s":12.0},)"
            R"({"id":"0/b","rank":0,"actor":"b","state":"running","detail":"read","from":"","number":3,"since_s":2.0}],)"
            R"("edges":[{"from":"0/a","to":"0/b","why":"input from b","young":false}],"cycles":[],)"
            R"("roots":[{"id":"0/b","why":"running read 3 for 2.000 s","since_s":2.0}],"chain":[],)"
            R"("text":"root: rank 0 b: running read 3 for 2.000 s\n  rank 0 a waits for input from b\n"})");
}

}  // namespace
}  // namespace troupe::trace
