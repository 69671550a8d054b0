#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/clock.h"
#include "runtime/trace/waits.h"

namespace troupe::trace {
namespace {

constexpr std::size_t kListed = 10;  // roots, cycles, collectives; the rest is counted
constexpr std::size_t kWaitersListed = 3;

const WaitGraph::Node& at(const WaitGraph& graph, int node) { return graph.nodes[static_cast<std::size_t>(node)]; }

std::string who(const WaitGraph::Node& node) {
  if (node.actor.empty()) return absl::StrCat("rank ", node.rank);
  if (node.actor.starts_with('?')) return absl::StrCat("rank ", node.rank, " '", node.actor.substr(1), "'");
  return absl::StrCat("rank ", node.rank, " ", node.actor);
}

std::string since(std::int64_t ns) { return absl::StrFormat(" for %.3f s", seconds(ns)); }

std::string rest(std::size_t count, const char* what) {
  return count > kListed ? absl::StrCat("... and ", count - kListed, " more ", what, "\n") : "";
}

// Operation of a group -> who waits in it, who has not entered.
struct OpenCollective {
  std::set<int> waiting, missing;  // ranks
  std::int64_t since_ns = 0;
};
std::map<std::string, OpenCollective> open_collectives(const WaitGraph& graph) {
  std::map<std::string, OpenCollective> open;
  for (const auto& edge : graph.edges) {
    const auto &from = at(graph, edge.from), &to = at(graph, edge.to);
    if (from.state != key(State::kWaitingForCollective) || from.rank == to.rank) continue;
    auto& collective = open[edge.why];
    collective.waiting.insert(from.rank);
    collective.missing.insert(to.rank);
    collective.since_ns = std::max(collective.since_ns, from.since_ns);
  }
  return open;
}

std::string events_text(const WaitGraph::Node& node, const char* indent) {
  std::string text;
  for (const auto& event : node.last_events) {
    const bool handled = event.kind == EventKind::kHandled;  // its number is the mailbox's depth
    absl::StrAppend(&text, indent, absl::StrFormat("%.3f s ago: ", seconds(event.at_ns)), handled ? "handled " : "", event.text,
                    !handled && event.number >= 0 ? absl::StrCat(" ", event.number) : "", "\n");
  }
  return text;
}

std::string cycles_text(const WaitGraph& graph) {
  std::string text;
  for (std::size_t i = 0; i < std::min(graph.cycles.size(), kListed); ++i) {
    const auto& cycle = graph.cycles[i];
    absl::StrAppend(&text, "a cycle of ", cycle.size(), ": none of these can go on\n");
    for (std::size_t member = 0; member < cycle.size(); ++member) {
      const int from = cycle[member], to = cycle[(member + 1) % cycle.size()];
      const auto edge = std::ranges::find_if(graph.edges, [&](const auto& e) { return e.from == from && e.to == to; });
      absl::StrAppend(&text, "  ", who(at(graph, from)), " waits for ", edge->why, since(at(graph, from).since_ns), ", so for ",
                      who(at(graph, to)), "\n", events_text(at(graph, from), "    "));
    }
  }
  return text + rest(graph.cycles.size(), "cycles");
}

std::string collectives_text(const WaitGraph& graph) {
  std::string text;
  std::size_t listed = 0;
  const auto open = open_collectives(graph);
  for (const auto& [what, collective] : open) {
    if (++listed > kListed) break;
    absl::StrAppend(&text, what, ": not entered by rank ", absl::StrJoin(collective.missing, ", "), "; rank ",
                    absl::StrJoin(collective.waiting, ", "), collective.waiting.size() == 1 ? " waits" : " wait",
                    since(collective.since_ns), "\n");
  }
  return text + rest(open.size(), "collectives");
}

std::string roots_text(const WaitGraph& graph) {
  std::map<int, std::vector<const WaitGraph::Edge*>> waiters;
  for (const auto& edge : graph.edges) waiters[edge.to].push_back(&edge);
  std::string text;
  for (std::size_t i = 0; i < std::min(graph.roots.size(), kListed); ++i) {
    const auto& node = at(graph, graph.roots[i]);
    absl::StrAppend(&text, "root: ", who(node), ": ", root_text(node), "\n");
    const auto& edges = waiters[graph.roots[i]];
    for (std::size_t edge = 0; edge < std::min(edges.size(), kWaitersListed); ++edge) {
      absl::StrAppend(&text, "  ", who(at(graph, edges[edge]->from)), " waits for ", edges[edge]->why, "\n");
    }
    if (edges.size() > kWaitersListed) absl::StrAppend(&text, "  ... and ", edges.size() - kWaitersListed, " more wait for it\n");
    text += events_text(node, "  ");
  }
  return text + rest(graph.roots.size(), "roots");
}

std::string chain_text(const WaitGraph& graph) {
  if (graph.chain.size() < 2) return "";
  return absl::StrCat(
      "from the ledger: ",
      absl::StrJoin(graph.chain, " -> ", [&graph](std::string* out, int node) { absl::StrAppend(out, who(at(graph, node))); }), "\n");
}

}  // namespace

std::string id(const WaitGraph::Node& node) { return absl::StrCat(node.rank, "/", node.actor); }

std::string root_text(const WaitGraph::Node& node) {
  if (node.state == "silent") return absl::StrCat("silent", since(node.since_ns), ": ", node.detail);
  if (node.state == "not_asked") return "was not asked";
  if (node.state == "answered") return "answers, and has not given or entered what others wait for";
  if (node.state == "unknown") return "no edge and no actor is called so";
  if (node.state == key(State::kEnded)) return absl::StrCat("ended", absl::StrFormat(" %.3f s ago: ", seconds(node.since_ns)), node.detail);
  for (int state = 0; state <= static_cast<int>(State::kEnded); ++state) {
    const auto its = static_cast<State>(state);
    if (node.state == key(its)) return doing(its, node.detail, node.from, node.number) + since(node.since_ns);
  }
  return node.state + since(node.since_ns);
}

std::string cause_text(const WaitGraph& graph) {
  if (!graph.cycles.empty() && (graph.chain.empty() || std::ranges::find(graph.roots, graph.chain.back()) == graph.roots.end())) {
    const auto& cycle = graph.cycles.front();
    return absl::StrCat("these wait for each other: ", absl::StrJoin(cycle, ", ", [&graph](std::string* out, int node) {
                          absl::StrAppend(out, who(at(graph, node)));
                        }));
  }
  if (graph.roots.empty()) return "nobody waits for anybody";
  const auto& node = at(graph, graph.roots.front());
  return absl::StrCat(who(node), ": ", root_text(node));
}

std::string to_text(const WaitGraph& graph) {
  const std::string text = cycles_text(graph) + collectives_text(graph) + roots_text(graph) + chain_text(graph);
  return text.empty() ? "nobody waits for anybody\n" : text;
}

}  // namespace troupe::trace
