#include "tools/troupe/inspect_tables.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tools/troupe/answer_fields.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

std::string whole(double number) { return absl::StrCat(static_cast<std::int64_t>(number)); }

std::string edges_text(const json& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& edge : rows_of(answer, "edges")) {
    rows.push_back({count(edge, "rank"), word(edge, "from"), word(edge, "to"), count(edge, "capacity"), count(edge, "free"), count(edge, "in_flight"),
                    count(edge, "queued"), count(edge, "held"), count(edge, "sent"), whole(number(edge, "bytes_per_s"))});
  }
  return table({{"RANK", true}, {"FROM"}, {"TO"}, {"CREDITS", true}, {"FREE", true}, {"IN FLIGHT", true}, {"QUEUED", true}, {"HELD", true}, {"SENT", true}, {"BYTES/S", true}}, rows);
}

std::string streams_text(const json& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& stream : rows_of(answer, "streams")) {
    const std::string running = word(stream, "running");
    rows.push_back({count(stream, "rank"), word(stream, "name"), word(stream, "kind"), absl::StrFormat("%.0f %%", 100 * number(stream, "busy_ratio")), count(stream, "queued"),
                    count(stream, "done"), running.empty() ? "-" : running, running.empty() ? "-" : age(stream, "running_s")});
  }
  return table({{"RANK", true}, {"STREAM"}, {"KIND"}, {"BUSY", true}, {"QUEUED", true}, {"DONE", true}, {"RUNNING"}, {"FOR", true}}, rows);
}

// Of the ranks' whole reports: messages that nobody will handle, of actors that live and of those that have ended.
std::string dead_text(const json& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& report : rows_of(answer, "ranks")) {
    const auto add = [&](const json& actor, const std::string& state) {
      for (const auto& letter : rows_of(actor, "dead_letters"))
        rows.push_back({count(report, "rank"), word(actor, "name"), state, word(letter, "type"), absl::StrReplaceAll(word(letter, "reason"), {{"_", " "}}), count(letter, "count")});
    };
    for (const auto& actor : rows_of(report, "actors")) add(actor, state_of(actor));
    for (const auto& ended : rows_of(report, "tombstones"))
      add(ended, absl::StrCat("ended ", duration(std::max(0.0, number(report, "probe_s") - number(ended, "ended_s"))), " ago: ", word(ended, "cause")));
  }
  if (rows.empty()) return "no dead letters\n";
  return table({{"RANK", true}, {"ACTOR"}, {"STATE"}, {"DEAD LETTER"}, {"WHY"}, {"COUNT", true}}, rows);
}

std::string collectives_text(const json& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& open : rows_of(answer, "collectives")) {
    rows.push_back({count(open, "rank"), word(open, "what"), age(open, "since_s"), absl::StrJoin(rows_of(open, "missing"), ",", [](std::string* out, const json& rank) {
                      absl::StrAppend(out, rank.dump());
                    })});
  }
  if (rows.empty()) return "no collective is open\n";
  return table({{"RANK", true}, {"COLLECTIVE"}, {"SINCE", true}, {"NOT ENTERED"}}, rows);
}

std::string bytes(const json& row, const char* key) { return absl::StrFormat("%.1f MiB", number(row, key) / (1 << 20)); }

// Where there is none, or it was not finite, "none".
std::string real(const json& row, const char* key) {
  return row.contains(key) && row[key].is_number() ? absl::StrFormat("%.4f", row[key].get<double>()) : "none";
}

std::string training_text(const json& t) {
  std::string text = absl::StrCat("step ", count(t, "step"), " of ", count(t, "steps"), ": loss ", real(t, "loss"), ", norm ", real(t, "grad_norm"),
                                  absl::StrFormat(", lr %.3g, %.0f tokens/s, mfu %.1f %%\n", number(t, "lr"), number(t, "tokens_per_s"), 100 * number(t, "mfu_ratio")));
  if (number(t, "val_step") >= 0 && t.contains("val_step")) absl::StrAppend(&text, "validation loss ", real(t, "val_loss"), " after step ", count(t, "val_step"), "\n");
  absl::StrAppend(&text, "a step takes ", age(t, "median_step_s"), " (median); ",
                  number(t, "step_open_s") > 0 ? absl::StrCat("the open one has lasted ", age(t, "step_open_s")) : "none is open", "; ", count(t, "skipped_steps"), " skipped\n");
  absl::StrAppend(&text, absl::StrFormat("goodput %.1f %% of ", 100 * number(t, "goodput_ratio")), age(t, "wall_s"), "\n");
  std::vector<std::vector<std::string>> lost;
  for (const auto& loss : rows_of(t, "badput")) {
    const double share = number(loss, "seconds") / std::max(1e-9, number(t, "wall_s"));
    if (share > 0) lost.push_back({absl::StrReplaceAll(word(loss, "type"), {{"_", " "}}), age(loss, "seconds"), absl::StrFormat("%.1f %%", 100 * share)});
  }
  return absl::StrCat(text, "\n", lost.empty() ? "" : absl::StrCat(table({{"LOST TO"}, {"TIME", true}, {"SHARE", true}}, lost), "\n"));
}

// Why a rank gave no answer, and since when it gives none.
std::string why_silent(const std::string& error, double silent_s) { return silent_s > 0 ? absl::StrCat(error, "; silent for ", duration(silent_s)) : error; }

std::string job_text(const json& answer) {
  std::string text = absl::StrCat("job ", word(answer, "job"), word(answer, "output").empty() ? "" : absl::StrCat(" into ", word(answer, "output")), "\n");
  if (answer.contains("training")) text += training_text(answer["training"]);
  std::vector<std::vector<std::string>> rows;
  for (const auto& rank : rows_of(answer, "ranks")) {
    const bool answered = rank.value("answered", false);
    const bool counts = answered && rank.value("restarts", -1) >= 0;
    rows.push_back({count(rank, "rank"), answered ? word(rank, "host") : "-", answered ? count(rank, "pid") : "-", counts ? count(rank, "restarts") : "-",
                    answered ? bytes(rank, "memory_bytes") : "-", answered ? bytes(rank, "memory_peak_bytes") : "-",
                    answered ? "answers" : number(rank, "silent_s") > 0 ? absl::StrCat("silent for ", age(rank, "silent_s"), ": ", word(rank, "error")) : word(rank, "error")});
  }
  return absl::StrCat(text, table({{"RANK", true}, {"HOST"}, {"PID", true}, {"RESTARTS", true}, {"MEMORY", true}, {"AT MOST", true}, {"STATE"}}, rows));
}

// As in a config file, then the plan.
std::string config_text(const json& answer) {
  const json sections = answer.value("config", json::object());
  if (sections.empty()) return "this job has no config\n";
  std::string text;
  for (const auto& [section, settings] : sections.items()) {
    absl::StrAppend(&text, "[", section, "]\n");
    for (const auto& [key, value] : settings.items()) absl::StrAppend(&text, key, " = ", value.dump(-1, ' ', false, json::error_handler_t::replace), "\n");
    text += "\n";
  }
  return absl::StrCat(text, word(answer, "plan"));
}

// "half up to 2 us, 99 % up to 64 us" of a histogram of times; empty where it has none.
std::string times_text(const json& actor, const char* key) {
  const json times = actor.value(key, json::object());
  const json bounds = rows_of(times, "bounds_s"), counts = rows_of(times, "counts");
  std::int64_t all = 0;
  for (const auto& count : counts) all += count.get<std::int64_t>();
  if (all == 0) return "";
  const auto up_to = [&](double share) {
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < bounds.size() && i < counts.size(); ++i) {
      seen += counts[i].get<std::int64_t>();
      if (static_cast<double>(seen) >= share * static_cast<double>(all)) return absl::StrCat("up to ", duration(bounds[i].get<double>()));
    }
    return std::string("longer than all bounds");
  };
  return absl::StrCat("half ", up_to(0.5), ", 99 % ", up_to(0.99));
}

std::string mailbox_text(const json& answer) {
  const json& actor = part_of(answer, "actor");
  std::string text = absl::StrCat(count(actor, "rank"), "/", word(actor, "name"), ": ", state_of(actor), " for ", age(actor, "since_s"), "; ", count(actor, "depth"),
                                  " waiting, ", count(actor, "depth_max"), " at most; ", count(actor, "sent"), " sent = ", count(actor, "handled"), " handled + ",
                                  count(actor, "dead"), " dead + ", count(actor, "depth"), " waiting\n");
  const std::string in_mailbox = times_text(actor, "in_mailbox_s"), in_handler = times_text(actor, "in_handler_s");
  if (!in_mailbox.empty()) absl::StrAppend(&text, "waited: ", in_mailbox, "; handled in: ", in_handler, "\n");
  std::vector<std::vector<std::string>> waiting, handled, dead;
  for (const auto& message : rows_of(actor, "waiting")) waiting.push_back({word(message, "type"), age(message, "age_s")});
  for (const auto& message : rows_of(actor, "messages")) handled.push_back({word(message, "type"), count(message, "handled"), age(message, "handling_s")});
  if (!waiting.empty()) absl::StrAppend(&text, "\n", table({{"WAITS, OLDEST FIRST"}, {"AGE", true}}, waiting));
  if (!handled.empty()) absl::StrAppend(&text, "\n", table({{"MESSAGE"}, {"HANDLED", true}, {"BUSY", true}}, handled));
  for (const auto& letter : rows_of(actor, "dead_letters")) dead.push_back({word(letter, "type"), absl::StrReplaceAll(word(letter, "reason"), {{"_", " "}}), count(letter, "count")});
  if (!dead.empty()) absl::StrAppend(&text, "\n", table({{"DEAD LETTER"}, {"WHY"}, {"COUNT", true}}, dead));
  return text;
}

std::string peek_text(const json& answer) {
  const json actor = answer.value("actor", json::object());
  std::string text = absl::StrCat(count(actor, "rank"), "/", word(actor, "name"), ": ", state_of(actor), " for ", age(actor, "since_s"), "; ", count(actor, "depth"),
                                  " waiting; events before these, lost: ", count(answer, "lost"), "\n");
  if (const json& stone = part_of(answer, "tombstone"); !stone.empty()) {
    absl::StrAppend(&text, "ended: ", word(stone, "cause"), "; ", count(stone, "sent"), " sent = ", count(stone, "handled"), " handled + ", count(stone, "dead"), " dead\n");
    for (const json& cause : rows_of(stone, "chain")) absl::StrAppend(&text, "  because of ", cause.is_string() ? cause.get<std::string>() : "", "\n");
  }
  text += "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& event : rows_of(answer, "events")) {
    const bool handled = word(event, "kind") == "handled";
    const std::string more = number(event, "others") > 0    ? absl::StrCat(", after ", count(event, "others"), " more of these")
                             : handled || number(event, "number") < 0 ? ""
                                                                      : absl::StrCat(" ", count(event, "number"));
    rows.push_back({age(event, "age_s"), absl::StrCat(handled ? "handled " : "", word(event, "text"), more),
                    handled ? age(event, "duration_s") : "-", handled ? count(event, "number") : "-", word(event, "from")});
  }
  return absl::StrCat(text, table({{"AGO", true}, {"EVENT"}, {"TOOK", true}, {"LEFT WAITING", true}, {"FROM"}}, rows));
}

std::string compute_text(const json& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& rank : rows_of(answer, "ranks"))
    rows.push_back({count(rank, "rank"), absl::StrCat(std::lround(100 * number(rank, "busy_ratio")), " %"), age(rank, "step_busy_s")});
  std::string text = table({{"RANK", true}, {"BUSY", true}, {"COMPUTES A STEP IN", true}}, rows);
  if (const json slow = answer.value("straggler", json()); slow.is_object()) {
    absl::StrAppend(&text, "rank ", count(slow, "rank"), " is slow: it computes ", absl::StrFormat("%.2f", number(slow, "ratio")), " times as long as its equals\n");
  }
  return text;
}

std::string no_answer(const std::string& rank, const std::string& error, double silent_s) {
  return absl::StrCat("rank ", rank, " did not answer: ", why_silent(error, silent_s), "\n");
}

}  // namespace

std::string actors_text(const ActorLines& lines, bool with_growth) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& actor : lines.actors) {
    rows.push_back({whole(actor.rank), actor.name, state_text(actor.state, actor.detail, actor.number, actor.from), duration(actor.since_s), whole(actor.depth), whole(actor.depth_max),
                    actor.depth > 0 ? duration(actor.oldest_s) : "-", whole(actor.handled), duration(actor.handling_s)});
    if (with_growth) rows.back().push_back(absl::StrFormat("%+.1f", actor.growth_per_s));
  }
  std::vector<Column> columns{{"RANK", true}, {"ACTOR"}, {"STATE"}, {"SINCE", true}, {"DEPTH", true}, {"MOST", true}, {"OLDEST", true}, {"HANDLED", true}, {"BUSY", true}};
  if (with_growth) columns.push_back({"GROWTH/S", true});
  std::string text = table(columns, rows);
  for (const auto& silent : lines.unanswered) text += no_answer(whole(silent.rank), silent.error, silent.silent_s);
  return text;
}

std::string inspect_text(const std::string& view, const json& answer) {
  std::string text = view == "actors"        ? actors_text(actor_lines(answer), word(answer, "sorted_by") == "growth")
                     : view == "job"         ? job_text(answer)
                     : view == "config"      ? config_text(answer)
                     : view == "edges"       ? edges_text(answer)
                     : view == "streams"     ? streams_text(answer)
                     : view == "collectives" ? collectives_text(answer)
                     : view == "dead"        ? dead_text(answer)
                     : view == "mailbox"     ? mailbox_text(answer)
                     : view == "peek"        ? peek_text(answer)
                     : view == "compute"     ? compute_text(answer)
                                             : absl::StrCat(absl::StripSuffix(word(answer, "text"), "\n"), "\n");
  if (view == "actors") return text;
  for (const auto& report : rows_of(answer, view == "dead" ? "ranks" : "")) {
    if (report.contains("answered") && report["answered"] == false) text += no_answer(count(report, "rank"), word(report, "error"), number(report, "silent_s"));
  }
  for (const auto& silent : rows_of(answer, "unanswered")) text += no_answer(count(silent, "rank"), word(silent, "error"), number(silent, "silent_s"));
  return text;
}

}  // namespace troupe::tool
