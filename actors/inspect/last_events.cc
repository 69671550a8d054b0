#include "actors/inspect/last_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/clock.h"

namespace troupe::actors {
namespace {

using Json = nlohmann::json;

constexpr const char* kKinds[] = {"handled", "state", "mark", "dead_letter", "ended"};  // of EventKind

}  // namespace

std::string last_events_json(const trace::ProbeRegistry& probes, const std::string& actor) {
  Json events = Json::array();
  const auto probe = probes.find(actor);
  if (!probe) return events.dump();
  auto rows = probe->events_since(0, probes.texts()).rows;
  const std::int64_t now_ns = probes.ticks().ns(probes.ticks().now());
  rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(std::min(rows.size(), kLastEvents)));
  for (const auto& row : rows) {
    events.push_back({{"kind", kKinds[static_cast<std::size_t>(row.kind)]}, {"text", row.text}, {"age_s", seconds(now_ns - row.at_ns)},
                      {"duration_s", seconds(row.duration_ns)}, {"number", row.number}});
  }
  return events.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<trace::EventRow> last_events_from_json(std::string_view text) {
  std::vector<trace::EventRow> rows;
  const Json events = Json::parse(text, nullptr, false);
  for (const auto& event : events.is_array() ? events : Json::array()) {
    const auto number = [&event](const char* key) { return event.is_object() && event.contains(key) && event[key].is_number() ? event[key].get<double>() : 0; };
    const auto word = [&event](const char* key) {
      return event.is_object() && event.contains(key) && event[key].is_string() ? event[key].get<std::string>() : "";
    };
    const auto* kind = std::ranges::find(kKinds, word("kind"));
    if (kind == std::end(kKinds)) continue;
    rows.push_back({.kind = static_cast<trace::EventKind>(kind - std::begin(kKinds)), .text = word("text"),
                    .at_ns = static_cast<std::int64_t>(std::clamp(number("age_s"), 0.0, 1e9) * 1e9),
                    .duration_ns = static_cast<std::int64_t>(std::clamp(number("duration_s"), 0.0, 1e9) * 1e9),
                    .number = static_cast<std::int64_t>(std::clamp(number("number"), -1.0, 1e15))});
  }
  return rows;
}

}  // namespace troupe::actors
