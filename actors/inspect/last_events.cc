#include "actors/inspect/last_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe::actors {
namespace {

using Json = nlohmann::json;

std::optional<trace::EventKind> kind_called(const std::string& name) {
  for (int kind = 0; kind <= static_cast<int>(trace::EventKind::kEnded); ++kind) {
    if (name == trace::key(static_cast<trace::EventKind>(kind))) return static_cast<trace::EventKind>(kind);
  }
  return {};
}

}  // namespace

std::vector<trace::EventRow> last_events_of(std::string_view peeked) {
  std::vector<trace::EventRow> rows;
  const Json answer = Json::parse(peeked, nullptr, false);
  const Json events = answer.is_object() ? answer.value("events", Json::array()) : Json::array();
  for (const auto& event : events.is_array() ? events : Json::array()) {
    const auto number = [&event](const char* key) { return event.is_object() && event.contains(key) && event[key].is_number() ? event[key].get<double>() : 0; };
    const auto word = [&event](const char* key) {
      return event.is_object() && event.contains(key) && event[key].is_string() ? event[key].get<std::string>() : "";
    };
    const auto kind = kind_called(word("kind"));
    if (!kind) continue;
    rows.push_back({.kind = *kind, .text = word("text"), .at_ns = static_cast<std::int64_t>(std::clamp(number("age_s"), 0.0, 1e9) * 1e9),
                    .duration_ns = static_cast<std::int64_t>(std::clamp(number("duration_s"), 0.0, 1e9) * 1e9),
                    .number = static_cast<std::int64_t>(std::clamp(number("number"), -1.0, 1e15))});
  }
  rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(std::min(rows.size(), kLastEvents)));
  return rows;
}

}  // namespace troupe::actors
