#include "runtime/base/toml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace troupe {
namespace {

bool is_bare_key(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Null when the node is not a scalar that a setting can hold.
bool to_scalar(const toml::node& node, TomlScalar& out) {
  if (const auto* b = node.as_boolean()) return out = b->get(), true;
  if (const auto* i = node.as_integer()) return out = i->get(), true;
  if (const auto* f = node.as_floating_point()) return out = f->get(), true;
  if (const auto* s = node.as_string()) return out = s->get(), true;
  return false;
}

TomlValue to_value(const toml::node& node) {
  if (node.is_table()) return TomlTable{};
  if (node.is_array_of_tables()) return TomlOther{"a list of tables"};
  if (const auto* array = node.as_array()) {
    TomlList list;
    for (const toml::node& element : *array) {
      TomlScalar scalar;
      if (!to_scalar(element, scalar)) return TomlOther{"a list of things that are no plain values"};
      list.push_back(std::move(scalar));
    }
    return list;
  }
  TomlScalar scalar;
  if (!to_scalar(node, scalar)) return TomlOther{"a date or time"};
  return std::visit([](auto& value) { return TomlValue(std::move(value)); }, scalar);
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<TomlEntry>& out) {
  struct Child {
    const toml::key* key;
    const toml::node* node;
  };
  std::vector<Child> children;
  for (auto it = table.cbegin(); it != table.cend(); ++it) children.push_back({&it->first, &it->second});
  std::sort(children.begin(), children.end(),
            [](const Child& a, const Child& b) { return a.key->source().begin < b.key->source().begin; });
  for (const Child& child : children) {
    const std::string_view name = child.key->str();
    const std::string part = is_bare_key(name) ? std::string(name) : toml_string(name);
    std::string key = prefix.empty() ? part : absl::StrCat(prefix, ".", part);
    const int line = static_cast<int>(child.key->source().begin.line);
    out.push_back({key, line, to_value(*child.node)});
    if (const auto* inner = child.node->as_table()) flatten(*inner, key, out);
  }
}

}  // namespace

StatusOr<std::vector<TomlEntry>> read_toml(std::string_view text, const std::string& origin) {
  const toml::parse_result parsed = toml::parse(text, std::string_view(origin));
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return absl::InvalidArgumentError(absl::StrCat(origin, ":", error.source().begin.line,
                                                   ": not valid TOML: ", std::string(error.description())));
  }
  std::vector<TomlEntry> entries;
  flatten(parsed.table(), "", entries);
  return entries;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04X", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_utf8(std::string_view text) {
  // RFC 3629, table 3-7 of Unicode: the second byte's range depends on the first
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int tail = lead >= 0xc2 && lead <= 0xdf   ? 1
                     : lead >= 0xe0 && lead <= 0xef ? 2
                     : lead >= 0xf0 && lead <= 0xf4 ? 3
                                                    : 0;
    if (tail == 0 || i + static_cast<std::size_t>(tail) >= text.size()) return false;
    unsigned char low = 0x80, high = 0xbf;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    for (int k = 1; k <= tail; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if (byte < low || byte > high) return false;
      low = 0x80;
      high = 0xbf;
    }
    i += static_cast<std::size_t>(tail) + 1;
  }
  return true;
}

}  // namespace troupe
