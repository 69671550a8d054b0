#include "runtime/base/config_value.h"

#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace troupe {
namespace {

struct ToText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return toml_float(value); }
  std::string operator()(const std::string& value) const { return toml_string(value); }
  std::string operator()(const TomlScalar& value) const { return std::visit(*this, value); }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> parts;
    for (const T& element : list) parts.push_back((*this)(element));
    return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
  }
  std::string operator()(const TomlTable&) const { return "a section"; }
  std::string operator()(const TomlOther& other) const { return other.what; }
};

template <class T>
std::optional<ConfigValue> to_list(const TomlList& list) {
  std::vector<T> out;
  for (const TomlScalar& element : list) {
    const T* value = std::get_if<T>(&element);
    if (value == nullptr) return std::nullopt;
    out.push_back(*value);
  }
  return ConfigValue(std::move(out));
}

template <class T>
std::optional<T> parse_number(std::string text) {
  std::erase(text, '_');
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (absl::StartsWith(text, "+")) ++begin;
  T value{};
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || begin == end) return std::nullopt;
  return value;
}

}  // namespace

std::string config_type_text(std::size_t type) {
  static constexpr const char* kNames[] = {"true or false", "a whole number",    "a number",
                                           "a string",      "a list of strings", "a list of whole numbers"};
  return kNames[type];
}

std::string toml_type_text(const TomlValue& value) {
  static constexpr const char* kNames[] = {"a section", "true or false", "a whole number", "a number",
                                           "a string",  "a list",        "no plain value"};
  return kNames[value.index()];
}

std::string config_text(const ConfigValue& value) { return std::visit(ToText(), value); }

std::string toml_text(const TomlValue& value) { return std::visit(ToText(), value); }

std::optional<ConfigValue> config_value_from_toml(const TomlValue& value, std::size_t type) {
  const ConfigValue wanted[] = {
      false, std::int64_t{0}, 0.0, std::string(), std::vector<std::string>(), std::vector<std::int64_t>()};
  return std::visit(
      [&](const auto& want) -> std::optional<ConfigValue> {
        using Want = std::decay_t<decltype(want)>;
        if constexpr (std::is_same_v<Want, std::vector<std::string>> ||
                      std::is_same_v<Want, std::vector<std::int64_t>>) {
          using Element = typename Want::value_type;
          if (const auto* list = std::get_if<TomlList>(&value)) return to_list<Element>(*list);
          if (const auto* one = std::get_if<Element>(&value)) return ConfigValue(Want{*one});
          return std::nullopt;
        } else {
          if (const auto* same = std::get_if<Want>(&value)) return ConfigValue(*same);
          if constexpr (std::is_same_v<Want, double>) {
            if (const auto* whole = std::get_if<std::int64_t>(&value))
              return ConfigValue(static_cast<double>(*whole));
          }
          return std::nullopt;
        }
      },
      wanted[type]);
}

std::optional<ConfigValue> config_value_from_word(const std::string& word, std::size_t type) {
  switch (type) {
    case 0:
      if (word == "true") return true;
      if (word == "false") return false;
      return std::nullopt;
    case 1:
      if (const auto whole = parse_number<std::int64_t>(word)) return *whole;
      return std::nullopt;
    case 2:
      if (const auto number = parse_number<double>(word)) return *number;
      return std::nullopt;
    case 3:
      return word;
    default:
      break;
  }
  // "a,b,c" or "[a, b, c]"
  std::string inner = word;
  if (inner.size() >= 2 && inner.front() == '[' && inner.back() == ']')
    inner = inner.substr(1, inner.size() - 2);
  std::vector<std::string> parts = absl::StrSplit(inner, ',', absl::SkipWhitespace());
  for (std::string& part : parts) {
    absl::StripAsciiWhitespace(&part);
    if (part.size() >= 2 && part.front() == '"' && part.back() == '"') part = part.substr(1, part.size() - 2);
  }
  if (type == 4) return parts;
  std::vector<std::int64_t> numbers;
  for (const std::string& part : parts) {
    const auto whole = parse_number<std::int64_t>(part);
    if (!whole) return std::nullopt;
    numbers.push_back(*whole);
  }
  return numbers;
}

}  // namespace troupe
