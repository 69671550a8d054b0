#include "runtime/trace/straggler.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::trace {
namespace {

// Names of the stages that a rank has; stand-ins of other ranks' actors have an @.
std::set<std::string> stages_of(const RankReport& report) {
  std::set<std::string> stages;
  for (const auto& actor : report.snapshot.actors) {
    if (actor.name.starts_with("stage-") && actor.name.find('@') == std::string::npos) stages.insert(actor.name);
  }
  return stages;
}

const StreamRow* compute_of(const RankReport& report) {
  const auto compute = std::ranges::find(report.streams, "compute", &StreamRow::kind);
  return report.answered && compute != report.streams.end() ? &*compute : nullptr;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::optional<Straggler> find_straggler(std::span<const RankReport> ranks) {
  std::map<std::set<std::string>, std::vector<Straggler>> equals;
  for (const auto& report : ranks) {
    const StreamRow* compute = compute_of(report);
    if (compute == nullptr || compute->step_busy_ns <= 0) continue;
    equals[stages_of(report)].push_back({.rank = report.rank, .step_busy_s = static_cast<double>(compute->step_busy_ns) / 1e9, .busy_ratio = compute->busy_ratio});
  }
  std::optional<Straggler> slowest;
  for (auto& [stages, members] : equals) {
    if (members.size() < 2) continue;
    for (auto& member : members) {
      std::vector<double> others;
      for (const auto& other : members) {
        if (&other != &member) others.push_back(other.step_busy_s);
      }
      member.median_s = median(std::move(others));
      if (member.busy_ratio >= Straggler::kBusyLeast && member.ratio() >= Straggler::kStandsOut && (!slowest || member.ratio() > slowest->ratio())) slowest = member;
    }
  }
  return slowest;
}

}  // namespace troupe::trace
