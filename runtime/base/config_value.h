// The values a setting can have, read from TOML or from a word of the command line, and written back.
// Threads: any; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/toml.h"

namespace troupe {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>,
                                 std::vector<std::int64_t>>;

// `type` is an index into ConfigValue. Nothing where the value does not fit it; a whole number fits a number,
// one element fits a list of them.
std::optional<ConfigValue> config_value_from_toml(const TomlValue& value, std::size_t type);
// Words: true, false, 1_000, 3e-4, text without quotes, a,b,c or [a, b, c].
std::optional<ConfigValue> config_value_from_word(const std::string& word, std::size_t type);

// As TOML.
std::string config_text(const ConfigValue& value);
std::string toml_text(const TomlValue& value);
// "a whole number" and so on, for messages.
std::string config_type_text(std::size_t type);
std::string toml_type_text(const TomlValue& value);

}  // namespace troupe
