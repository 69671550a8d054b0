// What the command line allows, and the one line that says what was wrong with it. For main.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/troupe/did_you_mean.h"

namespace troupe::tool {

// What an option takes, with one message for all that it does not.
inline CLI::Validator allowed(const std::string& what, std::function<bool(const std::string&)> is_allowed) {
  return CLI::Validator([=](std::string& text) { return is_allowed(text) ? "" : absl::StrCat("'", text, "' is not ", what); }, "");
}
inline CLI::Validator whole(std::int64_t least, std::int64_t most) {
  return allowed(absl::StrCat("a whole number from ", least, " to ", most), [=](const std::string& text) {
    std::int64_t value = 0;
    return absl::SimpleAtoi(text, &value) && value >= least && value <= most;
  });
}
inline CLI::Validator number(std::int64_t least, std::int64_t most) {
  return allowed(absl::StrCat("a number from ", least, " to ", most), [=](const std::string& text) {
    double value = 0;
    return absl::SimpleAtod(text, &value) && value >= static_cast<double>(least) && value <= static_cast<double>(most);  // not for NaN
  });
}
inline CLI::Validator some(const std::string& what) {
  return allowed(what, [](const std::string& text) { return !text.empty(); });
}
inline CLI::Validator one_of(const std::string& what, const std::vector<std::string>& names) {
  return CLI::Validator([=](std::string& text) {
    const bool is_one = std::ranges::find(names, text) != names.end();
    return is_one ? "" : absl::StrCat("'", text, "' is not ", what, did_you_mean(text, names));
  }, "");
}
inline const CLI::Validator kPositive = whole(1, std::numeric_limits<int>::max()), kNotNegative = whole(0, std::numeric_limits<int>::max());

inline std::string name_of(const CLI::App& command) {  // "troupe data prepare"
  return command.get_parent() ? absl::StrCat(name_of(*command.get_parent()), " ", command.get_name()) : "troupe";
}

inline std::string unknown_word(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  const bool is_option = word.starts_with('-');
  if (is_option) {
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_group().empty()) continue;  // hidden
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : command.get_subcommands({})) names.push_back(sub->get_name());
  }
  const std::string what = is_option ? "there is no option " : names.empty() ? "one word too much: " : "there is no command ";
  const std::string said = word.substr(0, is_option ? word.find('=') : word.size());
  const std::string meant = did_you_mean(said, names);
  return absl::StrCat(what, said, meant, meant.empty() ? "; see " : " See ", name_of(command), " --help");
}

// In one line, for the command that was chosen.
inline std::string text_of(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const auto left = command->remaining();
  const bool takes_all = command->get_allow_extras() || command->get_prefix_command();
  std::string what;
  if (!left.empty() && !takes_all) what = unknown_word(*command, left[0]);
  else if (!command->get_subcommands({}).empty()) what = absl::StrCat("which command? See ", name_of(*command), " --help");
  else what = absl::StrCat(error.what(), "; see ", name_of(*command), " --help");
  return command == &app ? what : absl::StrCat(name_of(*command).substr(std::strlen("troupe ")), ": ", what);
}

}  // namespace troupe::tool
