#include "actors/inspect/views.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/trace/json.h"
#include "runtime/trace/prometheus.h"
#include "runtime/trace/straggler.h"
#include "runtime/trace/waits.h"

namespace troupe::actors {
namespace {

using nlohmann::json;

std::string text_of(const json& view) { return view.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string quoted(const std::string& text) { return text_of(json(text)); }

trace::RankReport silent_report(const RankReply& reply) {
  trace::RankReport report;
  report.rank = reply.rank;
  report.answered = false;
  report.error = std::string(reply.status.message());
  report.silent_s = reply.silent_s;
  return report;
}

std::string unanswered(Replies replies) {
  json silent = json::array();
  for (const auto& reply : replies) {
    if (!reply.status.ok()) silent.push_back({{"rank", reply.rank}, {"error", std::string(reply.status.message())}, {"silent_s", reply.silent_s}});
  }
  return text_of(silent);
}

// The reports as they came, for those that are silent one that says so.
std::string reports_text(Replies replies) {
  return absl::StrCat("[", absl::StrJoin(replies, ",", [](std::string* out, const RankReply& reply) {
    out->append(reply.status.ok() ? reply.text : trace::to_json(silent_report(reply)));
  }), "]");
}

std::string straggler_text(const std::vector<trace::RankReport>& reports) {
  const auto found = trace::find_straggler(reports);
  if (!found) return "null";
  return text_of({{"rank", found->rank}, {"step_busy_s", found->step_busy_s}, {"median_s", found->median_s}, {"ratio", found->ratio()}});
}

json card_of(const JobCard& card) {
  return {{"job", card.job}, {"output", card.output}, {"program", card.program}, {"world", card.world}, {"started_unix_s", card.started_unix_s}};
}

}  // namespace

std::vector<trace::RankReport> reports_of(Replies replies) {
  std::vector<trace::RankReport> reports;
  for (const auto& reply : replies) {
    if (!reply.status.ok()) reports.push_back(silent_report(reply));
    else if (auto report = trace::rank_report_from_json(reply.text); report.ok()) reports.push_back(*std::move(report));
    if (!reports.empty() && reports.back().rank == reply.rank) reports.back().after_ns = reply.after_ns;
  }
  return reports;
}

StatusOr<std::string> job_view(const Asked& asked, Replies replies) {
  json ranks = json::array(), training;
  std::int64_t refused = 0;
  for (const auto& reply : replies) {
    const json said = reply.status.ok() ? json::parse(reply.text, nullptr, false) : json::object();
    json row{{"rank", reply.rank}, {"host", ""}, {"pid", 0}, {"answered", reply.status.ok()}};
    if (said.is_object()) {
      row["host"] = said.value("host", "");
      row["pid"] = said.value("pid", 0);
      row["refused"] = said.value("refused", 0);
      refused += said.value("refused", std::int64_t{0});
    }
    if (said.is_object() && reply.status.ok()) {
      row["restarts"] = said.value("restarts", std::int64_t{-1});
      row["memory_bytes"] = said.value("memory_bytes", std::int64_t{0});
      row["memory_peak_bytes"] = said.value("memory_peak_bytes", std::int64_t{0});
      if (said.contains("training")) training = said["training"];  // of whatever rank has the ledger
    }
    if (!reply.status.ok()) {
      row["error"] = std::string(reply.status.message());
      row["silent_s"] = reply.silent_s;
    }
    ranks.push_back(std::move(row));
  }
  json view = card_of(asked.card);
  view["schema"] = trace::kSchema;
  view["ranks"] = std::move(ranks);
  if (!training.is_null()) view["training"] = std::move(training);
  view["refused"] = refused;
  return text_of(view);
}

StatusOr<std::string> ranks_view(const Asked& asked, Replies replies) {
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",\"ranks\":", reports_text(replies), "}");
}

StatusOr<std::string> frame_view(const Asked& asked, Replies replies) {
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  double asking_s = 0;
  for (const auto& reply : replies) asking_s = std::max(asking_s, static_cast<double>(reply.after_ns) / 1e9);
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"at_unix_s\":", text_of(json(now_s)), ",\"asking_s\":", text_of(json(asking_s)),
                      ",\"job\":", text_of(card_of(asked.card)), ",\"ranks\":", reports_text(replies), "}");
}

StatusOr<std::string> with_waits(std::string frame) {
  const json said = json::parse(frame, nullptr, false);
  if (!said.is_object() || !said.value("ranks", json()).is_array()) return absl::DataLossError("the answer is no frame of a job: does it run another version?");
  std::vector<trace::RankReport> reports;
  for (const auto& rank : said["ranks"]) {
    if (auto report = trace::rank_report_from_json(text_of(rank)); report.ok()) reports.push_back(*std::move(report));
  }
  const json asking = said.value("asking_s", json());  // frames of earlier builds have none
  const std::int64_t asking_ns = asking.is_number() ? std::llround(std::clamp(asking.get<double>(), 0.0, 3600.0) * 1e9) : 0;
  for (auto& report : reports) report.after_ns = asking_ns;
  frame.erase(frame.rfind('}'));
  absl::StrAppend(&frame, ",\"waits\":", trace::to_json(trace::wait_graph(reports)), ",\"straggler\":", straggler_text(reports), "}");
  return frame;
}

StatusOr<std::string> rows_view(const Asked& asked, Replies replies) {
  std::string rows;
  for (const auto& reply : replies) {
    if (reply.status.ok() && reply.text.size() > 2) absl::StrAppend(&rows, rows.empty() ? "" : ",", reply.text.substr(1, reply.text.size() - 2));
  }
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",", quoted(asked.list), ":[", rows,
                      "],\"unanswered\":", unanswered(replies), "}");
}

StatusOr<std::string> mailbox_view(const Asked& asked, Replies replies) {
  std::vector<std::string> ids;
  std::string found;
  for (const auto& reply : replies) {
    const json rows = reply.status.ok() ? json::parse(reply.text, nullptr, false) : json::array();
    for (const auto& row : rows.is_array() ? rows : json::array()) {
      ids.push_back(absl::StrCat(reply.rank, "/", row.value("name", "")));
      found = text_of(row);
    }
  }
  const std::string silent = unanswered(replies);
  if (ids.empty())
    return absl::NotFoundError(absl::StrCat("there is no actor ", asked.actor, silent == "[]" ? "" : " in the ranks that answered", "; troupe inspect actors lists them"));
  if (ids.size() > 1) return absl::InvalidArgumentError(absl::StrCat(asked.actor, " is in several ranks: say one of ", absl::StrJoin(ids, ", ")));
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",\"actor\":", found, ",\"unanswered\":", silent, "}");
}

StatusOr<std::string> told_view(const Asked& asked, Replies replies) {
  for (const auto& reply : replies) {
    if (!reply.status.ok()) return reply.status;
    if (reply.text.empty()) continue;
    return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",\"rank\":", reply.rank, ",", reply.text.substr(1));
  }
  return absl::NotFoundError(absl::StrCat("there is no actor ", asked.actor, "; troupe inspect actors lists them"));
}

StatusOr<std::string> peek_view(const Asked& asked, Replies replies) {
  std::vector<std::string> ids;
  std::string found;
  for (const auto& reply : replies) {
    if (!reply.status.ok() || !reply.text.starts_with('{') || reply.text == "{}") continue;
    ids.push_back(absl::StrCat(reply.rank, "/", asked.actor));
    found = reply.text;
  }
  const std::string silent = unanswered(replies);
  if (ids.empty())
    return absl::NotFoundError(absl::StrCat("there is no actor ", asked.actor, silent == "[]" ? "" : " in the ranks that answered", "; troupe inspect actors lists them"));
  if (ids.size() > 1) return absl::InvalidArgumentError(absl::StrCat(asked.actor, " is in several ranks: say one of ", absl::StrJoin(ids, ", ")));
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",", found.substr(1, found.size() - 2), ",\"unanswered\":", silent, "}");
}

StatusOr<std::string> trace_view(const Asked& asked, Replies replies) {
  std::string ranks;
  for (const auto& reply : replies) {
    if (reply.status.ok()) absl::StrAppend(&ranks, ranks.empty() ? "" : ",", reply.text);
  }
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",\"ranks\":[", ranks, "],\"unanswered\":", unanswered(replies), "}");
}

StatusOr<std::string> compute_view(const Asked& asked, Replies replies) {
  const auto reports = reports_of(replies);
  json ranks = json::array();
  for (const auto& report : reports) {
    for (const auto& stream : report.streams) {
      if (stream.kind == "compute")
        ranks.push_back({{"rank", report.rank}, {"busy_ratio", stream.busy_ratio}, {"step_busy_s", static_cast<double>(stream.step_busy_ns) / 1e9}});
    }
  }
  return absl::StrCat("{\"schema\":", trace::kSchema, ",\"job\":", quoted(asked.card.job), ",\"ranks\":", text_of(ranks), ",\"straggler\":", straggler_text(reports),
                      ",\"unanswered\":", unanswered(replies), "}");
}

// In brief the text alone: of very many actors the lists are much.
StatusOr<std::string> waits_view(const Asked& asked, Replies replies) {
  const auto graph = trace::wait_graph(reports_of(replies));
  return asked.is_brief ? text_of({{"schema", trace::kSchema}, {"text", trace::to_text(graph)}}) : trace::to_json(graph);
}

StatusOr<std::string> config_view(const Asked& asked, Replies replies) {
  json view{{"schema", trace::kSchema}, {"job", asked.card.job}, {"config", json::object()}, {"plan", ""}};
  for (const auto& reply : replies) {
    const json said = reply.status.ok() ? json::parse(reply.text, nullptr, false) : json::object();
    if (!said.is_object() || !said.contains("config") || said["config"].empty()) continue;
    view.update(said);
    break;
  }
  return text_of(view);
}

StatusOr<std::string> metrics_view(const Asked& asked, Replies replies) {
  const auto reports = reports_of(replies);
  return trace::to_prometheus({.run = asked.card.job, .output = asked.card.output, .started_unix_s = asked.card.started_unix_s}, reports);
}

}  // namespace troupe::actors
