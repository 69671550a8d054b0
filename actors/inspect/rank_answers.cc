#include "actors/inspect/rank_answers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/trace/json.h"

namespace troupe::actors {
namespace {

bool is_brief(const Question& question) { return question.word("brief") == "1"; }

// The whole report; brief=1: without lists of messages.
StatusOr<std::string> report(const RankSources& rank, const Question& question) { return trace::to_json(rank_report(rank), is_brief(question)); }

// The report without its lists.
StatusOr<std::string> summary(const RankSources& rank, const Question&) {
  trace::RankReport report = rank_report(rank);
  report.snapshot = {.at_ns = report.snapshot.at_ns, .tombstones_dropped = report.snapshot.tombstones_dropped};
  report.collectives.clear();
  report.streams.clear();
  return trace::to_json(report);
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

struct Verb {
  const char* name;
  StatusOr<std::string> (*answer)(const RankSources&, const Question&);
};
constexpr Verb kVerbs[] = {{"report", report}, {"summary", summary}, {"rows", rows}, {"actor", actor}};

}  // namespace

StatusOr<std::string> answer(const RankSources& rank, const Question& question) {
  for (const auto& verb : kVerbs) {
    if (question.verb == verb.name) return verb.answer(rank, question);
  }
  return absl::NotFoundError(absl::StrCat("a rank does not know '", question.verb, "'; it knows ",
                                          absl::StrJoin(kVerbs, ", ", [](std::string* out, const Verb& verb) { absl::StrAppend(out, verb.name); })));
}

}  // namespace troupe::actors
