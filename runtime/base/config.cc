#include "runtime/base/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/toml.h"

namespace troupe {
namespace {

constexpr std::size_t kFileLimitBytes =
    1 << 20;  // a config is a page or two; a corpus given by mistake is not read

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return absl::StrCat(static_cast<std::int64_t>(value));
  return toml_float(value);
}

}  // namespace

std::string ConfigOrigin::text() const {
  switch (kind) {
    case Kind::kDefault:
      return "default";
    case Kind::kFile:
      return absl::StrCat(file, ":", line);
    case Kind::kCommandLine:
      break;
  }
  return "command line";
}

ConfigField& ConfigField::one_of(const std::vector<std::string>& names) {
  for (const std::string& name : names) also_written(name, name);
  return *this;
}

ConfigField& ConfigField::also_written(std::string spelling, std::string name) {
  choices_.emplace_back(std::move(spelling), std::move(name));
  return *this;
}

ConfigField& ConfigField::alias(std::string key) {
  aliases_.push_back(std::move(key));
  return *this;
}

ConfigField& ConfigField::option(std::string name) {
  options_.push_back(std::move(name));
  return *this;
}

ConfigField& ConfigField::known_as(std::vector<std::string> names) {
  known_as_.insert(known_as_.end(), names.begin(), names.end());
  return *this;
}

ConfigField& ConfigField::bound(Bound& side, double value, bool open) {
  side = {value, open, false, true};
  return *this;
}

std::string ConfigField::allowed(bool with_implied) const {
  if (!choices_.empty()) {
    std::vector<std::string> names;
    for (const auto& [spelling, name] : choices_) {
      if (spelling == name) names.push_back(name);
    }
    return absl::StrJoin(names, " | ");
  }
  const bool low = low_.set && (with_implied || !low_.implied);
  const bool high = high_.set && (with_implied || !high_.implied);
  if (low && high && !low_.open && !high_.open) {
    return absl::StrCat(number_text(low_.value), " .. ", number_text(high_.value));
  }
  std::vector<std::string> parts;
  if (low) parts.push_back(absl::StrCat(low_.open ? "above " : "at least ", number_text(low_.value)));
  if (high) parts.push_back(absl::StrCat(high_.open ? "below " : "at most ", number_text(high_.value)));
  return absl::StrJoin(parts, " and ");
}

ConfigField& ConfigSchema::add_field(const std::string& key, const std::string& doc, std::size_t type) {
  ConfigField& field = fields_.emplace_back();
  field.key_ = key;
  field.doc_ = doc;
  field.type_ = type;
  TROUPE_CHECK(by_key_.emplace(key, &field).second) << key << " is declared twice";
  return field;
}

void ConfigSchema::fail(const ConfigOrigin& origin, const std::string& what) {
  errors_.push_back(absl::StrCat(origin.text(), ": ", what));
}

void ConfigSchema::apply(ConfigField& field, const std::string& written_key, ConfigValue value,
                         const ConfigOrigin& origin) {
  const std::string shown =
      absl::StrCat(written_key, written_key == field.key_ ? "" : absl::StrCat(" (here ", field.key_, ")"),
                   " = ", config_text(value));
  if (auto* text = std::get_if<std::string>(&value)) {
    if (!is_utf8(*text)) return fail(origin, absl::StrCat(written_key, ": the value is not valid UTF-8"));
    if (!field.choices_.empty()) {
      const auto choice = std::find_if(field.choices_.begin(), field.choices_.end(), [&](const auto& entry) {
        return absl::EqualsIgnoreCase(entry.first, *text);
      });
      if (choice == field.choices_.end())
        return fail(origin, absl::StrCat(shown, ": must be one of ", field.allowed(true)));
      *text = choice->second;
    }
  }
  std::vector<double> numbers;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) numbers.push_back(static_cast<double>(*whole));
  if (const auto* number = std::get_if<double>(&value)) numbers.push_back(*number);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    numbers.assign(list->begin(), list->end());
  for (const double number : numbers) {
    if (!std::isfinite(number)) return fail(origin, absl::StrCat(shown, ": must be finite"));
    const ConfigField::Bound& low = field.low_;
    const ConfigField::Bound& high = field.high_;
    const bool below = low.set && (low.open ? number <= low.value : number < low.value);
    const bool above = high.set && (high.open ? number >= high.value : number > high.value);
    if (!below && !above) continue;
    const bool implied = below ? low.implied : high.implied;
    return fail(origin, absl::StrCat(shown, " is out of range: allowed ", field.allowed(implied)));
  }
  const bool same_layer = field.layer_ == layer_;
  const bool repeated_option =
      origin.kind == ConfigOrigin::Kind::kCommandLine && field.written_key_ == written_key;
  if (same_layer && !repeated_option) {
    return fail(origin, absl::StrCat(field.key_, " is given twice: as '", field.written_key_, "' (",
                                     field.origin_.text(), ") and as '", written_key, "' (", origin.text(),
                                     "); keep one"));
  }
  field.set_(value);
  field.origin_ = origin;
  field.written_key_ = written_key;
  field.layer_ = layer_;
}

Status ConfigSchema::parse_file(const std::string& path) {
  const auto refuse_file = [&](const std::string& what) {
    errors_.push_back(absl::StrCat(path, ": ", what));
    return status();
  };
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    code_ = absl::StatusCode::kNotFound;
    return refuse_file("no such config file");
  }
  if (kind == std::filesystem::file_type::directory)
    return refuse_file("is a folder; a config is a TOML file");
  std::ifstream in(path, std::ios::binary);
  std::string text(kFileLimitBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) return refuse_file("cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kFileLimitBytes) {
    return refuse_file(absl::StrCat("is larger than ", kFileLimitBytes, " bytes; is it a config?"));
  }
  return parse(text, path);
}

Status ConfigSchema::parse(std::string_view text, const std::string& origin) {
  ++layer_;
  const auto entries = read_toml(text, origin);
  if (!entries.ok()) {
    errors_.emplace_back(entries.status().message());
    return status();
  }
  std::string skipped;  // section that was refused as a whole
  for (const TomlEntry& entry : *entries) {
    if (!skipped.empty() && is_below_config_key(entry.key, skipped)) continue;
    const ConfigOrigin place{ConfigOrigin::Kind::kFile, origin, entry.line};
    const bool table = std::holds_alternative<TomlTable>(entry.value);
    ConfigField* field = find(entry.key);
    if (field != nullptr && !table) {
      if (auto value = config_value_from_toml(entry.value, field->type_)) {
        apply(*field, entry.key, *std::move(value), place);
      } else {
        fail(place,
             absl::StrCat(entry.key, " = ", toml_text(entry.value), " is ", toml_type_text(entry.value),
                          "; it must be ", config_type_text(field->type_)));
      }
      continue;
    }
    if (table && field == nullptr && refusal(entry.key) == nullptr && is_section(entry.key)) continue;
    skipped = table ? entry.key : "";
    if (field != nullptr) {
      fail(place, absl::StrCat(entry.key, " is a setting, not a section; it must be ",
                               config_type_text(field->type_)));
    } else if (const auto* refused = refusal(entry.key)) {
      fail(place, absl::StrCat(entry.key, " is not supported: ", refused->second));
    } else if (is_section(entry.key)) {
      fail(place, absl::StrCat(entry.key, " is a section, not a setting; write [", entry.key, "]"));
    } else {
      fail(place, table ? unknown_section(entry.key) : unknown_key(entry.key));
    }
  }
  return status();
}

Status ConfigSchema::override_with(const std::vector<std::string>& arguments) {
  ++layer_;
  const ConfigOrigin place{ConfigOrigin::Kind::kCommandLine, "", 0};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!absl::StartsWith(argument, "--") || argument.size() == 2) {
      fail(place, absl::StrCat("'", argument, "' is no setting; write --section.key=value"));
      continue;
    }
    const std::size_t equals = argument.find('=');
    std::string key = argument.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    std::replace(key.begin(), key.end(), '-', '_');
    ConfigField* field = find(key);
    for (ConfigField& candidate : fields_) {
      if (std::count(candidate.options_.begin(), candidate.options_.end(), key) > 0) field = &candidate;
    }
    // the value that follows, also of an unknown key: it is not reported as a second error
    std::optional<std::string> word;
    if (equals != std::string::npos) {
      word = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--")) {
      const bool flag = field != nullptr && field->type_ == ConfigValue(false).index();
      if (!flag || arguments[i + 1] == "true" || arguments[i + 1] == "false") word = arguments[++i];
    }
    if (field == nullptr) {
      const auto* refused = refusal(key);
      fail(place, refused != nullptr ? absl::StrCat(key, " is not supported: ", refused->second)
                  : is_section(key)
                      ? absl::StrCat(key, " is a section, not a setting; write --", key, ".KEY=value")
                      : unknown_key(key));
      continue;
    }
    if (!word && field->type_ == ConfigValue(false).index()) word = "true";
    if (!word) {
      fail(place, absl::StrCat("--", key, " needs a value: ", config_type_text(field->type_)));
    } else if (auto value = config_value_from_word(*word, field->type_)) {
      apply(*field, key, *std::move(value), place);
    } else {
      fail(place, absl::StrCat(key, " = ", *word, " is not ", config_type_text(field->type_)));
    }
  }
  return status();
}

Status config_errors(const std::vector<std::string>& errors, absl::StatusCode code) {
  if (errors.empty()) return ok();
  if (errors.size() == 1) return Status(code, errors.front());
  return Status(code, absl::StrCat(errors.size(), " errors:\n  ", absl::StrJoin(errors, "\n  ")));
}

Status ConfigSchema::status() const { return config_errors(errors_, code_); }

ConfigOrigin ConfigSchema::origin(const std::string& key) const {
  for (const ConfigField& field : fields_) {
    if (field.key_ == key) return field.origin_;
  }
  return {};
}

ConfigOrigins ConfigSchema::origins() const {
  ConfigOrigins out;
  for (const ConfigField& field : fields_) out[field.key_] = field.origin_;
  return out;
}

std::string ConfigSchema::resolved() const {
  std::vector<std::string> order = sections();
  order.insert(order.begin(), "");  // TOML: keys of no section come first
  std::string out;
  for (const std::string& section : order) {
    if (!section.empty()) {
      const auto doc = section_docs_.find(section);
      absl::StrAppend(&out, out.empty() ? "" : "\n", "[", section, "]",
                      doc == section_docs_.end() ? "" : absl::StrCat("  # ", doc->second), "\n");
    }
    for (const ConfigField& field : fields_) {
      const auto [own_section, name] = split_config_key(field.key_);
      if (own_section != section) continue;
      const std::string allowed = field.allowed(false);
      absl::StrAppend(&out, "# ", field.doc_, allowed.empty() ? "" : absl::StrCat(" (", allowed, ")"), "\n");
      const auto value = field.get_();
      absl::StrAppend(
          &out,
          value ? absl::StrCat(name, " = ", config_text(*value)) : absl::StrCat("# ", name, " is not given"),
          "\n");
    }
  }
  return out;
}

}  // namespace troupe
