#include "actors/inspect/stall_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/clock.h"
#include "runtime/trace/json.h"

namespace troupe::actors {
namespace {

using Json = nlohmann::json;

const trace::WaitGraph::Node& at(const trace::WaitGraph& graph, int node) { return graph.nodes[static_cast<std::size_t>(node)]; }

Json events_of(const trace::WaitGraph::Node& node) {
  Json events = Json::array();
  for (const auto& event : node.last_events) {
    events.push_back({{"text", event.text}, {"age_s", seconds(event.at_ns)}, {"duration_s", seconds(event.duration_ns)}, {"number", event.number}});
  }
  return events;
}

Json nodes_of(const trace::WaitGraph& graph, const std::vector<int>& nodes) {
  Json rows = Json::array();
  for (const int number : nodes) {
    const auto& node = at(graph, number);
    rows.push_back({{"id", id(node)}, {"rank", node.rank}, {"actor", node.actor}, {"state", node.state}, {"detail", node.detail}, {"from", node.from},
                     {"number", node.number}, {"since_s", seconds(node.since_ns)}, {"why", root_text(node)}, {"last_events", events_of(node)}});
  }
  return rows;
}

}  // namespace

bool is_stalled(std::span<const trace::RankReport> ranks, const trace::WaitGraph& graph) {
  for (const auto& rank : ranks) {
    for (const auto& actor : rank.snapshot.actors) {
      if (actor.state == trace::State::kPaused) return false;
      // the job is held, or has ended
      if (actor.name == "ledger" && (actor.state == trace::State::kIdle || actor.state == trace::State::kEnded)) return false;
    }
  }
  return !graph.edges.empty() || !graph.roots.empty();
}

StallReport stall_report(const Stall& stall, std::span<const trace::RankReport> ranks, const trace::WaitGraph& graph) {
  StallReport report{.cause = trace::cause_text(graph)};
  report.text = stall.step >= 0 ? absl::StrFormat("step %d is not closed after %.1f s", stall.step, stall.stalled_s)
                                : absl::StrFormat("no actor has handled a message for %.1f s", stall.stalled_s);
  if (stall.usual_s > 0) absl::StrAppend(&report.text, absl::StrFormat(" (the median step takes %.3f s)", stall.usual_s));
  absl::StrAppend(&report.text, ": ", report.cause, "\n", trace::to_text(graph));

  Json collectives = Json::array(), all = Json::array();
  for (const auto& rank : ranks) {
    all.push_back(Json::parse(trace::to_json(rank, true), nullptr, false));
    for (auto row : all.back().value("collectives", Json::array())) {
      row["rank"] = rank.rank;
      collectives.push_back(std::move(row));
    }
  }
  const Json whole{{"schema", trace::kSchema}, {"step", stall.step}, {"stalled_s", stall.stalled_s}, {"usual_s", stall.usual_s}, {"cause", report.cause},
                   {"waits", Json::parse(trace::to_json(graph), nullptr, false)}, {"collectives", std::move(collectives)},
                   {"cycle", nodes_of(graph, graph.cycles.empty() ? std::vector<int>() : graph.cycles.front())}, {"roots", nodes_of(graph, graph.roots)}, {"ranks", std::move(all)}};
  report.json = whole.dump(1, ' ', false, Json::error_handler_t::replace);
  return report;
}

}  // namespace troupe::actors
