#include "runtime/trace/waits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/trace/wait_paths.h"

namespace troupe::trace {
namespace {

constexpr int kHopsMost = 8;  // of stand-ins: a report may be wrong

using Node = WaitGraph::Node;

// What one rank says, with its names found quickly.
struct Seen {
  const RankReport* report = nullptr;
  int node = -1;                                                                                  // of the rank as a whole
  std::unordered_map<std::string_view, int> actors;                                               // nodes
  std::unordered_multimap<std::string_view, const EdgeRow*> edges_by_name, edges_from, edges_to;  // from and to: by actor
};

// An edge's end is actor.port; both may have dots.
std::string_view actor_of(const Seen& seen, std::string_view end) {
  if (seen.actors.contains(end)) return end;
  return end.substr(0, std::min(end.size(), end.rfind('.')));
}

struct StandIn {
  std::string name;
  int rank = 0;
};
std::optional<StandIn> stand_in(const std::string& actor, int own_rank) {
  const auto at = actor.rfind('@');
  StandIn result;
  if (at == std::string::npos || !absl::SimpleAtoi(actor.substr(at + 1), &result.rank) || result.rank == own_rank) return {};
  result.name = actor.substr(0, at);
  return result;
}

class Builder {
 public:
  explicit Builder(std::span<const RankReport> ranks) {
    for (const auto& report : ranks) ranks_[report.rank].report = &report;
    for (auto& [rank, seen] : ranks_) add_rank(rank, seen);
    for (auto& [rank, seen] : ranks_) {
      if (seen.report->answered) index_edges(seen);
    }
  }

  WaitGraph build() {
    // A rank that is not in the reports may be added meanwhile: it waits for nobody.
    for (const auto& [rank, report] : reports()) {
      for (const auto& actor : report->snapshot.actors) add_waits(rank, actor);
    }
    return compacted();
  }

 private:
  enum class Towards { kReceiver, kSender };

  std::vector<std::pair<int, const RankReport*>> reports() const {
    std::vector<std::pair<int, const RankReport*>> result;
    for (const auto& [rank, seen] : ranks_) {
      if (seen.report != nullptr && seen.report->answered) result.emplace_back(rank, seen.report);
    }
    return result;
  }
  int add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }
  void add_rank(int rank, Seen& seen) {
    if (seen.report == nullptr) {
      seen.node = add({.rank = rank, .state = "not_asked"});
      return;
    }
    const auto& report = *seen.report;
    const bool answered = report.answered;
    seen.node = add({.rank = rank,
                     .state = answered ? "answered" : "silent",
                     .detail = report.error,
                     .since_ns = static_cast<std::int64_t>(std::clamp(report.silent_s, 0.0, 1e9) * 1e9)});
    if (!answered) return;
    for (const auto& actor : report.snapshot.actors) {
      seen.actors.emplace(actor.name, add({.rank = rank,
                                           .actor = actor.name,
                                           .state = key(actor.state),
                                           .detail = actor.detail,
                                           .from = actor.from,
                                           .since_ns = actor.since_ns,
                                           .number = actor.number}));
    }
    for (const auto& stone : report.snapshot.tombstones) {  // the living of that name go first
      seen.actors.emplace(stone.name, add({.rank = rank,
                                           .actor = stone.name,
                                           .state = key(State::kEnded),
                                           .detail = stone.cause,
                                           .since_ns = report.snapshot.at_ns - stone.at_ns}));
    }
  }
  void index_edges(Seen& seen) {
    for (const auto& edge : seen.report->snapshot.edges) {
      seen.edges_by_name.emplace(edge.name, &edge);
      seen.edges_from.emplace(actor_of(seen, edge.from), &edge);
      seen.edges_to.emplace(actor_of(seen, edge.to), &edge);
    }
  }
  Seen& look(int rank) {
    Seen& seen = ranks_[rank];
    if (seen.node < 0) add_rank(rank, seen);
    return seen;
  }

  // The node of an actor, which may only stand for an end in another rank.
  int node_of(int at_rank, std::string actor, Towards towards) {
    for (int hop = 0; hop < kHopsMost; ++hop) {
      Seen& seen = look(at_rank);
      if (seen.report == nullptr || !seen.report->answered) return seen.node;
      if (actor == absl::StrCat("@", at_rank)) return seen.node;
      const auto far = stand_in(actor, at_rank);
      if (!far) return found(seen, at_rank, actor);
      Seen& there = look(far->rank);
      if (far->name.empty()) return there.node;
      if (there.report == nullptr || !there.report->answered) return there.node;
      const std::string twin = absl::StrCat(far->name, "@", at_rank);
      if (!there.actors.contains(twin)) {  // of an actor, no edge
        return there.actors.contains(far->name) ? found(there, far->rank, far->name) : found(seen, at_rank, actor);
      }
      const auto& edges = towards == Towards::kReceiver ? there.edges_from : there.edges_to;
      const auto edge = edges.find(twin);
      // Of actors that stand for each other there, too: the one that is meant.
      if (edge == edges.end()) return found(there, far->rank, there.actors.contains(far->name) ? far->name : twin);
      std::tie(at_rank, actor) = end_of(*edge->second, far->rank, towards);
    }
    return found(look(at_rank), at_rank, actor);
  }
  std::pair<int, std::string> end_of(const EdgeRow& edge, int at_rank, Towards towards) {
    const bool receiver = towards == Towards::kReceiver;
    const int elsewhere = receiver ? edge.to_rank : edge.from_rank;
    const std::string& end = receiver ? edge.to : edge.from;
    const Seen& here = look(at_rank);
    if (const auto own = actor_of(here, end); elsewhere < 0 || here.actors.contains(own)) return {at_rank, std::string(own)};
    return {elsewhere, std::string(actor_of(look(elsewhere), end))};
  }
  int found(Seen& seen, int at_rank, const std::string& actor) {
    const auto at = seen.actors.find(actor);
    return at != seen.actors.end() ? at->second : unknown(at_rank, actor);
  }
  int unknown(int at_rank, const std::string& what) {
    const std::string name = absl::StrCat("?", what);
    const auto [at, fresh] = unknown_.try_emplace({at_rank, name}, 0);
    if (fresh) at->second = add({.rank = at_rank, .actor = name, .state = "unknown"});
    return at->second;
  }
  // By its name: here, or in the one rank that has it.
  std::optional<int> actor_named(int at_rank, const std::string& name, Towards towards) {
    if (look(at_rank).actors.contains(name)) return node_of(at_rank, name, towards);
    std::optional<int> result;
    for (const auto& [other, seen] : ranks_) {
      const auto at = seen.actors.find(name);
      if (at == seen.actors.end()) continue;
      if (result) return {};
      result = at->second;
    }
    return result;
  }

  void add_waits(int at_rank, const ActorRow& actor) {
    const int from = look(at_rank).actors.at(actor.name);
    switch (actor.state) {
      case State::kWaitingForCredit:
        return wait_for_edge(at_rank, from, actor, Towards::kReceiver, absl::StrCat("credit of ", actor.detail));
      case State::kWaitingForInput:
        if (!actor.from.empty()) {
          // what it waits for may be in its mailbox
          if (actor.depth == 0) wait(from, node_of(at_rank, actor.from, Towards::kSender), actor.detail.empty() ? "input" : actor.detail);
          return;
        }
        return wait_for_edge(at_rank, from, actor, Towards::kSender, absl::StrCat("input from ", actor.detail));
      case State::kWaitingForCollective:
        return wait_for_collective(at_rank, from, actor);
      case State::kReady:
        if (!actor.from.empty()) wait(from, node_of(at_rank, actor.from, Towards::kReceiver), "a turn");
        return;
      case State::kIdle:
      case State::kHandling:
      case State::kRunning:
      case State::kWaitingForEvent:
      case State::kPaused:
      case State::kEnded:
        return;
    }
  }
  // A detail is the name of an edge, or of an end of it: whole, or the actor's own port.
  void wait_for_edge(int at_rank, int from, const ActorRow& actor, Towards towards, const std::string& why) {
    if (actor.detail.empty()) return;
    const Seen& seen = look(at_rank);
    std::vector<const EdgeRow*> edges;
    const auto own = towards == Towards::kReceiver ? seen.edges_from.equal_range(actor.name) : seen.edges_to.equal_range(actor.name);
    const std::string port = absl::StrCat(actor.name, ".", actor.detail);
    for (auto edge = own.first; edge != own.second; ++edge) {
      const EdgeRow& row = *edge->second;
      const bool is_meant = row.name == actor.detail || row.from == actor.detail || row.to == actor.detail ||
                            (towards == Towards::kReceiver ? row.from : row.to) == port;
      if (is_meant) edges.push_back(&row);
    }
    if (edges.empty()) {
      const auto named = seen.edges_by_name.equal_range(actor.detail);
      for (auto edge = named.first; edge != named.second; ++edge) edges.push_back(edge->second);
    }
    for (const auto* edge : edges) {
      auto [there, name] = end_of(*edge, at_rank, towards);
      wait(from, node_of(there, std::move(name), towards), why);
    }
    if (edges.empty()) {
      const auto named = actor_named(at_rank, actor.detail, towards);
      wait(from, named ? *named : unknown(at_rank, actor.detail), why);
    }
  }

  // The operations an actor waits for; what it says may be what the operation is for, or nothing.
  static std::vector<const CollectiveRow*> meant(const RankReport& report, const ActorRow& actor) {
    const auto where = [&report](const auto& is_meant) {
      std::vector<const CollectiveRow*> rows;
      for (const auto& row : report.collectives) {
        if (is_meant(row)) rows.push_back(&row);
      }
      return rows;
    };
    auto rows = where([&](const CollectiveRow& row) {
      return (row.group == actor.name || row.group == actor.from) && row.sequence == actor.number;
    });
    if (rows.empty()) rows = where([&](const CollectiveRow& row) { return !actor.detail.empty() && row.what == actor.detail; });
    if (rows.empty()) rows = where([&](const CollectiveRow& row) { return row.group == actor.name; });
    if (rows.empty() && actor.detail.empty()) rows = where([](const CollectiveRow&) { return true; });
    return rows;
  }
  static bool has_entered(const Seen& seen, const CollectiveRow& row) {
    return seen.report != nullptr && std::ranges::any_of(seen.report->collectives, [&row](const CollectiveRow& its) {
             return its.group == row.group && its.sequence == row.sequence;
           });
  }
  // Who would have to ask for it there: the namesake of who has asked here.
  int entrant(Seen& there, const CollectiveRow& row, int at_rank) {
    const RankReport& here = *look(at_rank).report;
    const ActorRow* asker = nullptr;
    for (const auto& actor : here.snapshot.actors) {
      if (actor.state != State::kWaitingForCollective || actor.from != row.group || actor.detail != row.what) continue;
      asker = &actor;
      if (actor.number == row.sequence) break;
    }
    const auto named = there.actors.find(asker != nullptr ? asker->name : row.group);
    if (named != there.actors.end()) return named->second;
    const auto front = there.actors.find(row.group);
    return front != there.actors.end() ? front->second : there.node;
  }
  void wait_for_collective(int at_rank, int from, const ActorRow& actor) {
    const auto rows = meant(*look(at_rank).report, actor);
    for (const auto* row : rows) {
      const std::string why = absl::StrCat("collective ", row->what, " (", row->sequence, " of ", row->group, ")");
      for (const int other : row->missing) {
        Seen& there = look(other);
        if (other == at_rank || has_entered(there, *row)) continue;  // what it sent is on its way
        wait(from, entrant(there, *row, at_rank), why);
      }
    }
    if (rows.empty() && !actor.from.empty()) {
      wait(from, node_of(at_rank, actor.from, Towards::kSender), absl::StrCat("collective ", actor.detail));  // has yet to begin it
    } else if (rows.empty() && !actor.detail.empty()) {
      // Else it is one that had ended, or had not begun, when the rank looked at its operations.
      if (const auto named = actor_named(at_rank, actor.detail, Towards::kSender)) wait(from, *named, absl::StrCat("collective ", actor.detail));
    }
  }
  void wait(int from, int to, const std::string& why) {
    if (known_.emplace(from, to).second) edges_.push_back({from, to, why});
  }

  static bool is_shown_alone(const Node& node) {
    if (node.state == "silent" || node.state == "handling" || node.state == "paused") return true;
    // what stands for another rank runs while that one holds what it was sent
    if (node.state == "running") return !stand_in(node.actor, node.rank);
    return node.state.starts_with("waiting");
  }
  // Only the nodes that say something, by rank.
  WaitGraph compacted() {
    std::vector<bool> shown(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) shown[i] = is_shown_alone(nodes_[i]);
    for (const auto& edge : edges_) shown[static_cast<std::size_t>(edge.from)] = shown[static_cast<std::size_t>(edge.to)] = true;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (shown[i]) order.push_back(i);
    }
    std::ranges::stable_sort(order, {}, [this](std::size_t i) { return nodes_[i].rank; });
    WaitGraph graph;
    std::vector<int> place(nodes_.size());
    for (const std::size_t i : order) {
      place[i] = static_cast<int>(graph.nodes.size());
      graph.nodes.push_back(std::move(nodes_[i]));
    }
    for (auto& edge : edges_) {
      graph.edges.push_back({place[static_cast<std::size_t>(edge.from)], place[static_cast<std::size_t>(edge.to)], std::move(edge.why)});
    }
    return graph;
  }

  std::map<int, Seen> ranks_;
  std::vector<Node> nodes_;
  std::vector<WaitGraph::Edge> edges_;
  std::set<std::pair<int, int>> known_;  // edges
  std::map<std::pair<int, std::string>, int> unknown_;
};

void find_roots(WaitGraph& graph, const WaitPaths& paths) {
  std::vector<std::pair<std::size_t, int>> roots;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const auto& node = graph.nodes[static_cast<std::size_t>(i)];
    if (paths.waits(i)) continue;
    const std::size_t waiting = paths.count_waiting(i);
    if (waiting > 0 || node.state == "running" || node.state == "handling" || node.state == "silent" || node.state == "paused") roots.emplace_back(waiting, i);
  }
  std::ranges::stable_sort(roots, std::greater<>(), &std::pair<std::size_t, int>::first);
  for (const auto& [waiting, root] : roots) graph.roots.push_back(root);
}

WaitPaths paths_of(const WaitGraph& graph) {
  std::vector<std::pair<int, int>> edges;
  for (const auto& edge : graph.edges) {
    if (!edge.is_young) edges.emplace_back(edge.from, edge.to);
  }
  return WaitPaths(graph.nodes.size(), edges);
}

void mark_young(WaitGraph& graph, std::int64_t asking_ns) {
  const auto circle_of = paths_of(graph).circle_of();
  for (auto& edge : graph.edges) {
    const auto from = static_cast<std::size_t>(edge.from);
    edge.is_young = circle_of[from] >= 0 && circle_of[from] == circle_of[static_cast<std::size_t>(edge.to)] && graph.nodes[from].since_ns < asking_ns;
  }
}

}  // namespace

WaitGraph wait_graph(std::span<const RankReport> ranks) {
  WaitGraph graph = Builder(ranks).build();
  std::int64_t asking_ns = 0;
  for (const auto& report : ranks) asking_ns = std::max(asking_ns, report.answered ? report.after_ns : 0);
  mark_young(graph, asking_ns);
  const WaitPaths paths = paths_of(graph);
  graph.cycles = paths.cycles(WaitGraph::kCyclesMost);
  find_roots(graph, paths);
  std::vector<bool> in_circle(graph.nodes.size());
  for (const auto& cycle : graph.cycles) {
    for (const int node : cycle) in_circle[static_cast<std::size_t>(node)] = true;
  }
  const auto ledger = std::ranges::find(graph.nodes, "ledger", &Node::actor);
  if (ledger != graph.nodes.end()) graph.chain = paths.chain(static_cast<int>(ledger - graph.nodes.begin()), in_circle);
  if (const auto end = graph.chain.empty() ? graph.roots.end() : std::ranges::find(graph.roots, graph.chain.back()); end != graph.roots.end()) {
    std::rotate(graph.roots.begin(), end, end + 1);
  }
  return graph;
}

}  // namespace troupe::trace
