// A declared schema of settings over the fields of a struct: reads TOML and command-line overrides into them,
// refuses what does not fit with one clear line each, and writes the effective settings back as TOML.
//
//   ConfigSchema schema;
//   schema.add("training.steps", &config.steps, "optimizer steps").at_least(1).known_as({"max_steps"});
//   schema.parse_file("a.toml");
//   Status status = schema.override_with({"--training.steps=20"});   // every error so far, in one status
//
// Later layers (a second file, the command line) win over earlier ones. The default is what the struct held
// at add(). Threads: one. Owns: the declarations; the struct is the caller's and must outlive the schema.
// Errors: kInvalidArgument, kNotFound for a file that is not there. Where a value is refused the field keeps
// what it had. Limits: a file of at most 1 MiB; whole numbers are 64 bits. Invariants: resolved() reads back
// to the same values (Config.ResolvedTextReadsBackToTheSameValues); an unknown key is never ignored
// (Config.RefusesAnUnknownKey*).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/config_value.h"
#include "runtime/base/status.h"

namespace troupe {

// Where a field's value came from.
struct ConfigOrigin {
  enum class Kind { kDefault, kFile, kCommandLine };
  Kind kind = Kind::kDefault;
  std::string file;
  int line = 0;

  bool given() const { return kind != Kind::kDefault; }
  std::string text() const;  // "default" | "a.toml:12" | "command line"
};
using ConfigOrigins = std::map<std::string, ConfigOrigin>;  // by the schema's own key

// One declared setting. The calls below refine it and return it, to be chained.
class ConfigField {
 public:
  ConfigField& at_least(double low) { return bound(low_, low, false); }
  ConfigField& above(double low) { return bound(low_, low, true); }
  ConfigField& at_most(double high) { return bound(high_, high, false); }
  ConfigField& below(double high) { return bound(high_, high, true); }
  ConfigField& between(double low, double high) { return at_least(low).at_most(high); }
  ConfigField& one_of(const std::vector<std::string>& names);         // strings; case does not matter
  ConfigField& also_written(std::string spelling, std::string name);  // of a choice: "bfloat16" is "bf16"
  ConfigField& alias(std::string key);                                // another full key of the same meaning
  ConfigField& option(std::string name);  // short form on the command line: --name
  ConfigField& known_as(
      std::vector<std::string> names);  // not accepted, but a person who types it means this

 private:
  friend class ConfigSchema;
  struct Bound {
    double value = 0;
    bool open = false;     // the bound itself is not allowed
    bool implied = false;  // comes from the field's C++ type
    bool set = false;
  };
  ConfigField& bound(Bound& side, double value, bool open);
  std::string allowed(bool with_implied) const;

  std::string key_;
  std::string doc_;
  std::size_t type_ = 0;  // index into ConfigValue
  std::function<void(const ConfigValue&)> set_;
  std::function<std::optional<ConfigValue>()> get_;
  Bound low_, high_;
  std::vector<std::pair<std::string, std::string>> choices_;  // spelling, name
  std::vector<std::string> aliases_, options_, known_as_;
  ConfigOrigin origin_;
  std::string written_key_;  // as the user wrote it, in layer_
  int layer_ = 0;
};

// "a.b.c" -> {"a.b", "c"}; whether a key lies in a section.
std::pair<std::string, std::string> split_config_key(const std::string& key);
bool is_below_config_key(const std::string& key, const std::string& section);

// No error is ok; one stands alone; several are counted and listed, a line each.
Status config_errors(const std::vector<std::string>& errors,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument);

class ConfigSchema {
 public:
  ConfigSchema() = default;
  ConfigSchema(const ConfigSchema&) = delete;
  ConfigSchema& operator=(const ConfigSchema&) = delete;

  // T: bool, int, int64_t, double, string, vector<string>, vector<int64_t>, or optional of one: empty is "not
  // given".
  template <class T>
  ConfigField& add(const std::string& key, T* place, const std::string& doc);
  // The first name of a value is the one written back; E may be an optional of the enum.
  template <class E>
  ConfigField& add_choice(const std::string& key, E* place,
                          const std::vector<std::pair<std::string, E>>& names, const std::string& doc);
  void describe_section(const std::string& section, const std::string& doc) { section_docs_[section] = doc; }
  // A key, or a whole section, that other trainers have: refused with `what_to_do`, not as a typing slip.
  void refuse(const std::string& key, const std::string& what_to_do) { refused_[key] = what_to_do; }

  // Each adds a layer and returns every error so far.
  Status parse_file(const std::string& path);
  Status parse(std::string_view text, const std::string& origin);
  // --section.key=value or --section.key value; a bare --section.key sets true; '-' inside a name reads as
  // '_'. Lists: a,b,c. The last one wins.
  Status override_with(const std::vector<std::string>& arguments);

  Status status() const;
  ConfigOrigin origin(const std::string& key) const;
  ConfigOrigins origins() const;
  // Every setting in schema order under its own name, with its doc as a comment; one that is not given is a
  // comment.
  std::string resolved() const;

 private:
  ConfigField& add_field(const std::string& key, const std::string& doc, std::size_t type);
  ConfigField* find(const std::string& key);
  bool is_section(const std::string& key) const;
  const std::pair<const std::string, std::string>* refusal(const std::string& key) const;
  std::vector<std::string> sections() const;  // in schema order
  std::string unknown_key(const std::string& key) const;
  std::string unknown_section(const std::string& section) const;
  void apply(ConfigField& field, const std::string& written_key, ConfigValue value,
             const ConfigOrigin& origin);
  void fail(const ConfigOrigin& origin, const std::string& what);

  std::deque<ConfigField> fields_;              // stable addresses
  std::map<std::string, ConfigField*> by_key_;  // own keys and aliases
  std::map<std::string, std::string> section_docs_, refused_;
  std::vector<std::string> errors_;
  absl::StatusCode code_ = absl::StatusCode::kInvalidArgument;
  int layer_ = 0;
};

namespace config_internal {
template <class T>
struct Stored {
  using type = std::conditional_t<std::is_same_v<T, int>, std::int64_t, T>;
};
template <class T>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<std::optional<T>> {
  using type = T;
};
// How a field of type T is read: empty when it is an empty optional.
template <class T>
const T* pointer(const std::optional<T>& place) {
  return place ? &*place : nullptr;
}
template <class T>
const T* pointer(const T& place) {
  return &place;
}
}  // namespace config_internal

template <class T>
ConfigField& ConfigSchema::add(const std::string& key, T* place, const std::string& doc) {
  using Plain = typename config_internal::Plain<T>::type;
  using Stored = typename config_internal::Stored<Plain>::type;
  ConfigField& field = add_field(key, doc, ConfigValue(Stored{}).index());
  field.set_ = [place](const ConfigValue& value) { *place = static_cast<Plain>(std::get<Stored>(value)); };
  field.get_ = [place]() -> std::optional<ConfigValue> {
    const Plain* plain = config_internal::pointer(*place);
    if (plain == nullptr) return std::nullopt;
    return ConfigValue(static_cast<Stored>(*plain));
  };
  if constexpr (std::is_same_v<Plain, int>) {
    field.between(std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
    field.low_.implied = field.high_.implied = true;
  }
  return field;
}

template <class E>
ConfigField& ConfigSchema::add_choice(const std::string& key, E* place,
                                      const std::vector<std::pair<std::string, E>>& names,
                                      const std::string& doc) {
  ConfigField& field = add_field(key, doc, ConfigValue(std::string()).index());
  for (const auto& [spelling, value] : names) {
    for (const auto& [name, same] : names) {
      if (same != value) continue;
      field.also_written(spelling, name);
      break;
    }
  }
  field.set_ = [place, names](const ConfigValue& value) {
    for (const auto& [name, meaning] : names) {
      if (name == std::get<std::string>(value)) *place = meaning;
    }
  };
  field.get_ = [place, names]() -> std::optional<ConfigValue> {
    for (const auto& [name, meaning] : names) {
      if (meaning == *place) return ConfigValue(name);
    }
    return std::nullopt;
  };
  return field;
}

}  // namespace troupe
