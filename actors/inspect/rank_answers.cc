#include "actors/inspect/rank_answers.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actors/inspect/runtime_folder.h"
#include "runtime/base/log.h"
#include "runtime/base/toml.h"
#include "runtime/trace/json.h"
#include "runtime/trace/rank_trace.h"

namespace troupe::actors {
namespace {

constexpr double kTraceS = 10, kTraceMostS = 3600;

// brief=1: without lists of messages.
bool is_brief(const Question& question) { return question.word("brief") == "1"; }
trace::Detail detail_of(const Question& question) { return is_brief(question) ? trace::Detail::kBrief : trace::Detail::kAll; }

StatusOr<std::string> report(const RankSources& rank, const Question& question) {
  return trace::to_json(rank_report(rank, {.detail = detail_of(question)}), is_brief(question));
}

// The report without its lists, and how often somebody was refused at this rank's doors.
StatusOr<std::string> summary(const RankSources& rank, const Question&) {
  trace::RankReport report = rank_report(rank, {.lists = trace::Lists::kNone, .collectives = false});
  report.streams.clear();
  std::string text = trace::to_json(report);
  text.pop_back();
  return absl::StrCat(text, ",\"refused\":", rank.refused ? rank.refused() : 0, "}");
}

// One list of it, as list=actors.
StatusOr<std::string> rows(const RankSources& rank, const Question& question) {
  const std::string list = question.word("list");
  const auto lists = list == "actors" ? trace::Lists::kActors : list == "edges" ? trace::Lists::kEdges : list == "tombstones" ? trace::Lists::kTombstones : trace::Lists::kNone;
  const auto report = rank_report(rank, {.detail = detail_of(question), .lists = lists, .collectives = list == "collectives"});
  std::string text = trace::rows_to_json(report, list, is_brief(question));
  if (text.empty()) return absl::NotFoundError(absl::StrCat("a report has no list '", list, "'"));
  return text;
}

// The rows of the actors called actor=NAME, "[]" without.
StatusOr<std::string> actor(const RankSources& rank, const Question& question) {
  trace::RankReport report = rank_report(rank, {.lists = trace::Lists::kActors, .collectives = false});
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
  log_info(absl::StrCat("actor '", question.word("actor"), "' of rank ", rank.rank.value, " ", told.text, ": somebody has asked for that"));
  trace::RankReport report;
  report.rank = rank.rank.value;
  report.snapshot.actors.push_back(std::move(told.row));
  const std::string row = trace::rows_to_json(report, "actors", true);
  return absl::StrCat(R"({"text":)", nlohmann::json(told.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), R"(,"actor":)", row.substr(1, row.size() - 2), "}");
}

// A word that is a number of seconds, `otherwise` without.
StatusOr<double> seconds_of(const Question& question, const std::string& key, double otherwise, double most) {
  double seconds = otherwise;
  const std::string text = question.word(key);
  if (text.empty() || (absl::SimpleAtod(text, &seconds) && seconds >= 0 && seconds <= most)) return seconds;
  return absl::InvalidArgumentError(absl::StrCat(key, " = ", text, " is not a number from 0 to ", most));
}

// What the rings hold of the last last_s=10 seconds, or since since_unix_s by the clock of this host.
StatusOr<std::string> trace_of(const RankSources& rank, const Question& question) {
  TROUPE_ASSIGN_OR_RETURN(double last_s, seconds_of(question, "last_s", kTraceS, kTraceMostS));
  TROUPE_ASSIGN_OR_RETURN(const double since_s, seconds_of(question, "since_unix_s", 0, 1e11));
  const trace::BothClocks now = trace::both_clocks(rank.probes->ticks());
  if (since_s > 0) last_s = std::clamp(now.unix_s - since_s, 0.0, kTraceMostS);
  trace::RankTrace trace = trace::rank_trace(*rank.probes, now.probe_ns - std::llround(last_s * 1e9));
  trace.rank = rank.rank.value;
  trace.host = this_host();
  return trace::to_json(trace);
}

// The tombstone of the last actor of that name that has ended, with its rank; "null" where one lives.
std::string tombstone_of(const RankSources& rank, const trace::Probe& probe) {
  if (!probe.has_ended()) return "null";
  trace::RankReport report{.rank = rank.rank.value};
  report.snapshot.tombstones = rank.probes->snapshot(trace::Detail::kAll, trace::Lists::kTombstones).tombstones;
  std::erase_if(report.snapshot.tombstones, [&](const trace::Tombstone& stone) { return stone.name != probe.name(); });
  if (report.snapshot.tombstones.empty()) return "null";  // it is being written, or was the oldest of too many
  report.snapshot.tombstones.erase(report.snapshot.tombstones.begin(), report.snapshot.tombstones.end() - 1);
  const std::string rows = trace::rows_to_json(report, "tombstones");
  return rows.substr(1, rows.size() - 2);
}

// The actor called actor=NAME with its last events, those from number since=0 on; "null" without. One that ended is shown, too, with its
// tombstone, as long as it has one.
StatusOr<std::string> peek(const RankSources& rank, const Question& question) {
  std::uint64_t since = 0;
  if (const std::string text = question.word("since"); !text.empty() && !absl::SimpleAtoi(text, &since))
    return absl::InvalidArgumentError(absl::StrCat("since = ", text, " is no number of an event"));
  const auto probe = rank.probes->find_any(question.word("actor"));
  if (probe == nullptr) return "null";
  trace::RankReport report{.rank = rank.rank.value};
  report.snapshot.actors.push_back(probe->row(rank.probes->texts()));
  const auto events = probe->events_since(since, rank.probes->texts());
  const std::string rows = trace::rows_to_json(report, "actors");  // a list of one
  return absl::StrCat("{\"actor\":", rows.substr(1, rows.size() - 2), ",\"events\":", trace::events_to_json(events.rows, rank.probes->ticks().now_ns()),
                      ",\"tombstone\":", tombstone_of(rank, *probe), ",\"next\":", events.next, ",\"lost\":", events.lost, "}");
}

struct Verb {
  const char* name;
  StatusOr<std::string> (*answer)(const RankSources&, const Question&);
  bool changes_something = false;
};
constexpr Verb kVerbs[] = {{"report", report}, {"summary", summary}, {"rows", rows}, {"actor", actor}, {"config", config}, {"trace", trace_of}, {"peek", peek},
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
