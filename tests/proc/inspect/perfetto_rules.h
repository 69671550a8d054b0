// What a trace viewer wants of a file in Chrome's JSON format, checked without the code that writes it.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::test {

// The first rules that are broken, a line each; empty: none.
inline std::vector<std::string> broken_trace_rules(const nlohmann::json& trace) {
  std::vector<std::string> broken;
  const auto say = [&](const std::string& what, const nlohmann::json& event) {
    if (broken.size() < 10) broken.push_back(what + ": " + event.dump().substr(0, 300));
  };
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) return {"no object with traceEvents"};
  if (const auto unit = trace.value("displayTimeUnit", ""); unit != "ms" && unit != "ns") say("displayTimeUnit", unit);
  using Line = std::pair<std::int64_t, std::int64_t>;
  struct Span {
    double begin, end;
  };
  std::map<Line, std::vector<Span>> slices;
  std::map<std::int64_t, std::vector<nlohmann::json>> flows;
  for (const auto& event : trace["traceEvents"]) {
    const auto has = [&](const char* key, bool (nlohmann::json::*is)() const noexcept) { return event.contains(key) && (event[key].*is)(); };
    using J = nlohmann::json;
    if (!event.is_object() || !has("ph", &J::is_string) || !has("pid", &J::is_number_integer) || !has("tid", &J::is_number_integer) || !has("name", &J::is_string)) {
      say("ph, pid, tid and name", event);
      continue;
    }
    const std::string phase = event["ph"];
    const Line line{event["pid"], event["tid"]};
    if (phase == "M") {
      const std::string name = event["name"];
      const bool named = name == "process_name" || name == "thread_name", sorted = name == "process_sort_index" || name == "thread_sort_index";
      const auto arguments = event.value("args", J::object());
      if (!(named && arguments.value("name", J()).is_string()) && !(sorted && arguments.value("sort_index", J()).is_number_integer())) say("metadata", event);
      continue;
    }
    if (!has("ts", &J::is_number) || event["ts"].get<double>() < 0) {
      say("ts", event);
      continue;
    }
    const double at = event["ts"];
    if (phase == "X") {
      if (!has("dur", &J::is_number) || event["dur"].get<double>() < 0) say("dur", event);
      else slices[line].push_back({at, at + event["dur"].get<double>()});
    } else if (phase == "s" || phase == "f") {
      if (!has("id", &J::is_number_integer) || !has("cat", &J::is_string)) say("id and cat of a flow", event);
      else flows[event["id"]].push_back(event);
      if (phase == "f" && event.value("bp", "") != "e") say("a flow's end binds to what encloses it", event);
    } else if (phase == "C") {
      const auto arguments = event.value("args", J::object());
      if (arguments.empty() || !std::all_of(arguments.begin(), arguments.end(), [](const J& value) { return value.is_number(); })) say("a counter's numbers", event);
    } else if (phase == "i") {
      if (event.value("s", "t") != "t") say("scope of an instant", event);
    } else {
      say("unknown ph", event);
    }
  }
  constexpr double kRoundedUs = 0.0015;
  for (auto& [line, spans] : slices) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end); });
    std::vector<double> open;  // ends
    for (const auto& span : spans) {
      while (!open.empty() && open.back() <= span.begin + kRoundedUs) open.pop_back();
      if (!open.empty() && span.end > open.back() + kRoundedUs) say("slices overlap", {{"pid", line.first}, {"tid", line.second}, {"ts", span.begin}, {"before it until", open.back()}});
      open.push_back(span.end);
    }
  }
  for (const auto& [id, ends] : flows) {
    if (ends.size() != 2 || ends[0]["ph"] == ends[1]["ph"]) {
      say("a flow has two ends", ends.front());
      continue;
    }
    const auto& start = ends[0]["ph"] == "s" ? ends[0] : ends[1];
    const auto& end = ends[0]["ph"] == "s" ? ends[1] : ends[0];
    if (end["ts"].get<double>() < start["ts"].get<double>()) say("a flow goes backwards", end);
    if (end["name"] != start["name"] || end["cat"] != start["cat"]) say("both ends of a flow are called alike", end);
  }
  return broken;
}

}  // namespace troupe::test
