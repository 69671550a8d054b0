// Names of the schema: which key a word means, and what to say of one that means none.
#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/config.h"
#include "runtime/base/edit_distance.h"

namespace troupe {

std::pair<std::string, std::string> split_config_key(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  if (dot == std::string::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

bool is_below_config_key(const std::string& key, const std::string& section) {
  return key.size() > section.size() + 1 && key[section.size()] == '.' && absl::StartsWith(key, section);
}

ConfigField* ConfigSchema::find(const std::string& key) {
  const auto own = by_key_.find(key);
  if (own != by_key_.end()) return own->second;
  // aliases are declared after add(), so they enter the map when first asked for
  for (ConfigField& field : fields_) {
    for (const std::string& alias : field.aliases_) {
      if (alias == key) return by_key_.emplace(alias, &field).first->second;
    }
  }
  return nullptr;
}

bool ConfigSchema::is_section(const std::string& key) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const ConfigField& field) {
                       return is_below_config_key(field.key_, key) ||
                              std::any_of(
                                  field.aliases_.begin(), field.aliases_.end(),
                                  [&](const std::string& alias) { return is_below_config_key(alias, key); });
                     }) ||
         std::any_of(refused_.begin(), refused_.end(),
                     [&](const auto& entry) { return is_below_config_key(entry.first, key); });
}

const std::pair<const std::string, std::string>* ConfigSchema::refusal(const std::string& key) const {
  for (const auto& entry : refused_) {
    if (entry.first == key || is_below_config_key(key, entry.first)) return &entry;
  }
  return nullptr;
}

// The nearest name by the last part of the key first (a section is easier confused than mistyped), then by
// its section.
std::string ConfigSchema::unknown_key(const std::string& key) const {
  const auto [section, last] = split_config_key(key);
  std::tuple<int, int> best{std::numeric_limits<int>::max(), 0};
  const ConfigField* nearest = nullptr;
  std::vector<std::string> siblings;
  for (const ConfigField& field : fields_) {
    const auto [own_section, own_last] = split_config_key(field.key_);
    if (own_section == section) siblings.push_back(own_last);
    std::vector<std::string> names = field.aliases_;
    names.push_back(field.key_);
    for (const std::string& name : field.known_as_) {
      names.push_back(
          absl::StrContains(name, ".") || own_section.empty() ? name : absl::StrCat(own_section, ".", name));
    }
    for (const std::string& name : names) {
      const auto [name_section, name_last] = split_config_key(name);
      if (section.empty() && edit_distance(key, name) <= 1) {  // "trainingsteps": the dot is missing
        return absl::StrCat("unknown key '", key, "'; did you mean '", field.key_, "'?");
      }
      if (!is_near(last, name_last)) continue;
      const std::tuple<int, int> score{2 * edit_distance(last, name_last) + (section == name_section ? 0 : 1),
                                       edit_distance(section, name_section)};
      if (score < best) {
        best = score;
        nearest = &field;
      }
    }
  }
  std::string message = absl::StrCat("unknown key '", key, "'");
  if (nearest != nullptr) return absl::StrCat(message, "; did you mean '", nearest->key_, "'?");
  if (!siblings.empty())
    return absl::StrCat(message, "; [", section, "] has ", absl::StrJoin(siblings, ", "));
  if (section.empty()) {
    return absl::StrCat(message, "; write SECTION.KEY, where the sections are ",
                        absl::StrJoin(sections(), ", "));
  }
  return unknown_section(section);
}

std::vector<std::string> ConfigSchema::sections() const {
  std::vector<std::string> out;
  for (const ConfigField& field : fields_) {
    const std::string own = split_config_key(field.key_).first;
    if (!own.empty() && std::find(out.begin(), out.end(), own) == out.end()) out.push_back(own);
  }
  return out;
}

std::string ConfigSchema::unknown_section(const std::string& section) const {
  const std::vector<std::string> known = sections();
  const std::string* nearest = nullptr;
  int best = std::numeric_limits<int>::max();
  for (const std::string& candidate : known) {
    const std::string last = split_config_key(candidate).second;
    const bool by_last = edit_distance(section, last) < edit_distance(section, candidate);
    const std::string& name = by_last ? last : candidate;
    if (is_near(section, name) && edit_distance(section, name) < best) {
      best = edit_distance(section, name);
      nearest = &candidate;
    }
  }
  std::string message = absl::StrCat("unknown section [", section, "]");
  if (nearest != nullptr) return absl::StrCat(message, "; did you mean [", *nearest, "]?");
  return absl::StrCat(message, "; there are ", absl::StrJoin(known, ", "));
}

}  // namespace troupe
