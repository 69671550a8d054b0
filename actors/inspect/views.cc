#include "actors/inspect/views.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/trace/json.h"
#include "runtime/trace/waits.h"

namespace troupe::actors {
namespace {

using nlohmann::json;

// What a peer has sent may be cut; it then counts as no answer.
std::vector<json> parsed(Reports reports) {
  std::vector<json> all;
  for (const auto& text : reports) {
    if (auto report = json::parse(text, nullptr, false); report.is_object()) all.push_back(std::move(report));
  }
  return all;
}

bool answered(const json& report) { return report.value("answered", false); }

json unanswered(const std::vector<json>& reports) {
  json silent = json::array();
  for (const auto& report : reports) {
    if (!answered(report)) silent.push_back({{"rank", report.value("rank", -1)}, {"error", report.value("error", "")}});
  }
  return silent;
}

// Of all ranks that answered, each row with its rank.
json rows_of(const std::vector<json>& reports, const std::string& what) {
  json rows = json::array();
  for (const auto& report : reports) {
    if (!answered(report) || !report.contains(what)) continue;
    for (const auto& row : report[what]) {
      json with_rank{{"rank", report.value("rank", -1)}};
      with_rank.update(row);
      rows.push_back(std::move(with_rank));
    }
  }
  return rows;
}

std::string text_of(const json& view) { return view.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string job_view(const JobCard& card, Reports reports) {
  json ranks = json::array();
  for (const auto& report : parsed(reports)) {
    json row{{"rank", report.value("rank", -1)}, {"host", report.value("host", "")}, {"pid", report.value("pid", 0)}, {"answered", answered(report)}};
    if (!answered(report)) row["error"] = report.value("error", "");
    ranks.push_back(std::move(row));
  }
  return text_of({{"schema", 1}, {"job", card.job}, {"output", card.output}, {"program", card.program}, {"world", card.world},
                  {"started_unix_s", card.started_unix_s}, {"ranks", std::move(ranks)}});
}

std::string ranks_view(const std::string& job, Reports reports) {
  return text_of({{"schema", 1}, {"job", job}, {"ranks", parsed(reports)}});
}

std::string rows_view(const std::string& job, const std::string& what, Reports reports) {
  const auto all = parsed(reports);
  return text_of({{"schema", 1}, {"job", job}, {what, rows_of(all, what)}, {"unanswered", unanswered(all)}});
}

StatusOr<std::string> mailbox_view(const std::string& job, const std::string& actor, Reports reports) {
  const auto all = parsed(reports);
  std::vector<std::string> ids;
  json found;
  for (auto& row : rows_of(all, "actors")) {
    const std::string name = row.value("name", ""), id = absl::StrCat(row.value("rank", -1), "/", name);
    if (actor != name && actor != id) continue;
    ids.push_back(id);
    found = std::move(row);
  }
  const json silent = unanswered(all);
  if (ids.empty())
    return absl::NotFoundError(absl::StrCat("there is no actor ", actor, silent.empty() ? "" : " in the ranks that answered", "; troupe inspect actors lists them"));
  if (ids.size() > 1) return absl::InvalidArgumentError(absl::StrCat(actor, " is in several ranks: say one of ", absl::StrJoin(ids, ", ")));
  return text_of({{"schema", 1}, {"job", job}, {"actor", std::move(found)}, {"unanswered", silent}});
}

std::string waits_view(Reports reports) {
  std::vector<trace::RankReport> all;
  for (const auto& text : reports) {
    if (auto report = trace::rank_report_from_json(text); report.ok()) all.push_back(*std::move(report));
  }
  return trace::to_json(trace::wait_graph(all));
}

}  // namespace troupe::actors
