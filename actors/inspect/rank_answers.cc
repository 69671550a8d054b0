#include "actors/inspect/rank_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/toml.h"
#include "runtime/trace/json.h"

namespace troupe::actors {
namespace {

bool is_brief(const Question& question) { return question.word("brief") == "1"; }

// The whole report; brief=1: without lists of messages.
StatusOr<std::string> report(const RankSources& rank, const Question& question) { return trace::to_json(rank_report(rank), is_brief(question)); }

// The report without its lists, and how often somebody was refused at this rank's doors.
StatusOr<std::string> summary(const RankSources& rank, const Question&) {
  trace::RankReport report = rank_report(rank);
  report.snapshot = {.at_ns = report.snapshot.at_ns, .tombstones_dropped = report.snapshot.tombstones_dropped};
  report.collectives.clear();
  report.streams.clear();
  std::string text = trace::to_json(report);
  text.pop_back();
  return absl::StrCat(text, ",\"refused\":", rank.refused ? rank.refused() : 0, "}");
}

// One list of it, as list=actors.
StatusOr<std::string> rows(const RankSources& rank, const Question& question) {
  std::string text = trace::rows_to_json(rank_report(rank), question.word("list"), is_brief(question));
  if (text.empty()) return absl::NotFoundError(absl::StrCat("a report has no list '", question.word("list"), "'"));
  return text;
}

// The rows of the actors called actor=NAME, "[]" without.
StatusOr<std::string> actor(const RankSources& rank, const Question& question) {
  trace::RankReport report = rank_report(rank);
  std::erase_if(report.snapshot.actors, [&](const trace::ActorRow& row) { return row.name != question.word("actor"); });
  return trace::rows_to_json(report, "actors");
}

// Nothing of the kind is a setting today; one that becomes one is not told to whoever looks.
bool is_secret(const std::string& key) {
  for (const char* word : {"token", "secret", "password", "credential", "api_key"}) {
    if (key == word || absl::EndsWith(key, absl::StrCat("_", word))) return true;
  }
  return false;
}

nlohmann::json json_of(const TomlScalar& value) {
  return std::visit([](const auto& held) { return nlohmann::json(held); }, value);
}

nlohmann::json json_of(const TomlValue& value) {
  if (const auto* list = std::get_if<TomlList>(&value)) {
    auto items = nlohmann::json::array();
    for (const auto& item : *list) items.push_back(json_of(item));
    return items;
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;
}

// {"config": {section: {key: value}}, "plan": text}.
StatusOr<std::string> config(const RankSources& rank, const Question&) {
  TROUPE_ASSIGN_OR_RETURN(const auto entries, read_toml(rank.config, "config"));
  auto sections = nlohmann::json::object();
  for (const auto& entry : entries) {
    const std::size_t dot = entry.key.rfind('.');
    if (dot == std::string::npos || std::holds_alternative<TomlTable>(entry.value)) continue;
    const std::string name = entry.key.substr(dot + 1);
    sections[entry.key.substr(0, dot)][name] = is_secret(name) ? nlohmann::json("(not shown)") : json_of(entry.value);
  }
  const nlohmann::json told{{"config", std::move(sections)}, {"plan", rank.plan}};
  return told.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// actor=NAME of rank=N is told something; the others answer nothing. {"text": what comes of it, "actor": its row}
template <actor::Control kWhat>
StatusOr<std::string> tell(const RankSources& rank, const Question& question) {
  if (question.word("rank") != absl::StrCat(rank.rank.value)) return "";
  if (!rank.control) return absl::FailedPreconditionError("the actors of this program cannot be told anything");
  TROUPE_ASSIGN_OR_RETURN(actor::Controlled told, rank.control(kWhat, question.word("actor")));
  trace::RankReport report;
  report.snapshot.actors.push_back(std::move(told.row));
  const std::string row = trace::rows_to_json(report, "actors", true);
  return absl::StrCat(R"({"text":)", nlohmann::json(told.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), R"(,"actor":)", row.substr(1, row.size() - 2), "}");
}

struct Verb {
  const char* name;
  StatusOr<std::string> (*answer)(const RankSources&, const Question&);
  bool changes_something = false;
};
constexpr Verb kVerbs[] = {{"report", report}, {"summary", summary}, {"rows", rows}, {"actor", actor}, {"config", config},
                           {"pause", tell<actor::Control::kPause>, true},
                           {"resume", tell<actor::Control::kResume>, true},
                           {"step", tell<actor::Control::kStep>, true}};

}  // namespace

bool changes_something(const Question& question) {
  return std::ranges::any_of(kVerbs, [&](const Verb& verb) { return verb.changes_something && question.verb == verb.name; });
}

StatusOr<std::string> answer(const RankSources& rank, const Question& question, bool is_authorised) {
  for (const auto& verb : kVerbs) {
    if (question.verb != verb.name) continue;
    if (verb.changes_something && !is_authorised) return absl::PermissionDeniedError(absl::StrCat("'", question.verb, "' without authority"));
    return verb.answer(rank, question);
  }
  return absl::NotFoundError(absl::StrCat("a rank does not know '", question.verb, "'; it knows ",
                                          absl::StrJoin(kVerbs, ", ", [](std::string* out, const Verb& verb) { absl::StrAppend(out, verb.name); })));
}

}  // namespace troupe::actors
