// Fields of the inspector's answers, whatever they are: what an answer of another version lacks is 0, empty or none.
// Threads: any; pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/troupe/table.h"

namespace troupe::tool {

// null where there is none.
inline const nlohmann::json& at(const nlohmann::json& row, const char* key) {
  static const nlohmann::json none;
  const auto found = row.find(key);
  return found == row.end() ? none : *found;
}
inline double number(const nlohmann::json& row, const char* key) { return at(row, key).is_number() ? at(row, key).get<double>() : 0; }
inline std::string count(const nlohmann::json& row, const char* key) { return absl::StrCat(static_cast<std::int64_t>(number(row, key))); }
inline std::string word(const nlohmann::json& row, const char* key) { return at(row, key).is_string() ? at(row, key).get<std::string>() : ""; }
// Not a copy: of ten thousand it would take as long as reading them.
inline const nlohmann::json& rows_of(const nlohmann::json& answer, const char* key) {
  static const nlohmann::json none = nlohmann::json::array();
  return at(answer, key).is_array() ? at(answer, key) : none;
}
inline const nlohmann::json& part_of(const nlohmann::json& answer, const char* key) {
  static const nlohmann::json none = nlohmann::json::object();
  return at(answer, key).is_object() ? at(answer, key) : none;
}
inline std::string age(const nlohmann::json& row, const char* key) { return duration(number(row, key)); }

// "waits for credit numbers", "handling Tick". `number`: below 0 if there is none.
inline std::string state_text(const std::string& name, const std::string& detail, double number, const std::string& from) {
  std::string state = absl::StrReplaceAll(name, {{"waiting_for_", "waits for "}, {"_", " "}});
  if (!detail.empty()) absl::StrAppend(&state, " ", detail);
  if (number >= 0) absl::StrAppend(&state, " ", static_cast<std::int64_t>(number));
  if (!from.empty()) absl::StrAppend(&state, " from ", from);
  return state;
}
inline std::string state_of(const nlohmann::json& actor) {
  return state_text(word(actor, "state"), word(actor, "detail"), actor.contains("number") ? number(actor, "number") : -1, word(actor, "from"));
}

}  // namespace troupe::tool
