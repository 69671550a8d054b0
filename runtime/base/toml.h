// Reads TOML text into a flat list of entries with their lines, and writes single values back. Knows TOML, no
// schema.
//
// Threads: any; pure. Errors: kInvalidArgument with "origin:line: what" for text that is not TOML.
// Limits: toml++ refuses values nested deeper than 256.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/status.h"

namespace troupe {

struct TomlTable {};
// What no setting can be: a date, a list of tables, a nested list. `what` names it for a message.
struct TomlOther {
  std::string what;
};
using TomlScalar = std::variant<bool, std::int64_t, double, std::string>;
using TomlList = std::vector<TomlScalar>;
using TomlValue = std::variant<TomlTable, bool, std::int64_t, double, std::string, TomlList, TomlOther>;

struct TomlEntry {
  std::string key;  // full dotted key; a part that is not a bare key keeps its quotes
  int line = 0;
  TomlValue value;
};

// Tables come before what they hold, siblings in the order of the text.
StatusOr<std::vector<TomlEntry>> read_toml(std::string_view text, const std::string& origin);

// A quoted basic string; the shortest number that reads back to the same bits, always recognisable as a
// float.
std::string toml_string(std::string_view text);
std::string toml_float(double value);

// Bytes that TOML can hold: well-formed UTF-8 (no overlong forms, no surrogates).
bool is_utf8(std::string_view text);

}  // namespace troupe
