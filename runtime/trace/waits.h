// Who waits for whom, over all ranks, from what each says of itself: the circles nobody gets out of, and the roots where a chain ends.
//
// From the actors' states: of credit of an edge -> the edge's receiver; for input from an edge, a port or an actor -> its sender; for a
// collective -> every rank that has not entered it: there the actor that would ask for it, which has the name of the one that asked here; else
// the one in front of the group, or the rank as a whole where neither is found. An actor that says it waits for an actor's input and has
// messages waits for its turn only.
// An edge's end or an actor may be in another rank; one called NAME@RANK only stands for it, and is looked through. A rank that gave no
// answer is waited for as a whole. What a detail names and nobody is called is a node "?detail".
//
// Threads: any; pure. The ranks' reports are not of one instant, so a wait that has just ended may be seen; but no circle of waits that never were at
//          the same time: what is younger than the asking took, and in a circle, may not have been there when others ended; all that are older were
//          there together when it began. Whoever says the same wait anew without a number (Probe::set_state) makes it young.
// Limits: kCyclesMost; every node that waits in a circle is in one that is listed, while there are no more.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/trace/report.h"

namespace troupe::trace {

struct WaitGraph {
  static constexpr std::size_t kCyclesMost = 100;

  struct Node {
    int rank = 0;
    std::string actor;  // empty: the rank as a whole; "?x": in this rank something waits for x, which is unknown
    std::string state;  // as in SCHEMA.md; of a rank: answered, silent, not_asked; else unknown
    std::string detail, from;
    std::int64_t since_ns = 0;
    std::int64_t number = -1;
    std::vector<EventRow> last_events;  // for to_text, from whoever has asked for them; at_ns is their age
  };
  struct Edge {
    int from = 0, to = 0;  // `from` waits for `to`
    std::string why;
    bool is_young = false;  // in a circle, and younger than the asking took: cycles, roots and chain are as if it were not there
  };
  // Actors that wait, that are waited for, or that run something; ranks that are waited for or silent. By rank, then as they were made.
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<std::vector<int>> cycles;  // each once, its smallest node first; each node waits for the next
  // Who is waited for and waits for nobody; who runs something; silent ranks. The end of the chain is the first, then those that most wait for.
  std::vector<int> roots;
  std::vector<int> chain;  // from the actor "ledger" to the nearest that waits for nobody or is in a circle
};

WaitGraph wait_graph(std::span<const RankReport> ranks);
std::string id(const WaitGraph::Node& node);         // "0/stage-0", "3/"
std::string root_text(const WaitGraph::Node& node);  // what it does, since when
std::string cause_text(const WaitGraph& graph);      // one line: a circle, or the end of the chain, or the first root
std::string to_text(const WaitGraph& graph);
std::string to_json(const WaitGraph& graph);  // nodes, edges, cycles, roots and the text: SCHEMA.md

}  // namespace troupe::trace
