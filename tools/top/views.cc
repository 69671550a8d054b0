#include "tools/top/views.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/troupe/answer_fields.h"
#include "tools/troupe/inspect_tables.h"

namespace troupe::top {
namespace {

using nlohmann::json;
using tool::age;
using tool::count;
using tool::number;
using tool::part_of;
using tool::rows_of;
using tool::word;

constexpr double kNeverLess = -1e300;  // sorts behind all

bool answered(const json& report) { return report.contains("answered") && report["answered"] == true; }

std::string bytes(const json& row, const char* key) {
  if (!row.contains(key)) return "-";
  const double value = number(row, key);
  for (const auto& [unit, size] : {std::pair("GiB", std::exp2(30)), {"MiB", std::exp2(20)}, {"KiB", std::exp2(10)}}) {
    if (value >= size) return absl::StrFormat("%.*f %s", value >= 100 * size ? 0 : 1, value / size, unit);
  }
  return absl::StrFormat("%.0f B", value);
}

std::string rate(const std::optional<double>& per_s) { return per_s ? short_number(*per_s) : "-"; }
std::string growth(const std::optional<double>& per_s) { return !per_s ? "-" : std::abs(*per_s) < 0.05 ? "0" : (*per_s > 0 ? "+" : "") + short_number(*per_s); }
std::string share(const std::optional<double>& ratio) { return ratio ? absl::StrFormat("%.0f%%", *ratio * 100) : "-"; }

bool waits(const json& actor) { return word(actor, "state").starts_with("waiting_for_"); }

void add_rank(Rows& to, const json& report) {
  const bool here = answered(report);
  double depth = 0;
  for (const auto& actor : rows_of(report, "actors")) depth += number(actor, "depth");
  const std::string silent = absl::StrCat("silent ", age(report, "silent_s"), ": ", word(report, "error"));
  to.rows.push_back({.id = count(report, "rank"),
                     .cells = {count(report, "rank"), word(report, "host"), here ? count(report, "pid") : "-", here ? bytes(report, "memory_bytes") : "-",
                               here ? bytes(report, "memory_peak_bytes") : "-", here ? absl::StrCat(rows_of(report, "actors").size()) : "-",
                               here ? absl::StrCat(static_cast<std::int64_t>(depth)) : "-", here ? "answers" : silent},
                     .weights = {depth, 0, number(report, "memory_bytes"), 0},
                     .look = here ? Look::kPlain : Look::kBad});
}

void add_actors(Rows& to, const json& report, const Rates& rates) {
  for (const auto& actor : rows_of(report, "actors")) {
    const std::string id = absl::StrCat(count(report, "rank"), "/", word(actor, "name"));
    const ActorRates now = rates.actor(id);
    const bool has_mail = number(actor, "depth") > 0;
    to.rows.push_back({.id = id,
                       .cells = {count(report, "rank"), word(actor, "name"), tool::state_of(actor), age(actor, "since_s"), count(actor, "depth"), count(actor, "depth_max"),
                                 has_mail ? age(actor, "oldest_s") : "-", rate(now.handled_per_s), growth(now.growth_per_s), share(now.busy_ratio)},
                       .weights = {number(actor, "depth"), has_mail ? number(actor, "oldest_s") : -1, now.busy_ratio.value_or(-1), now.growth_per_s.value_or(kNeverLess)},
                       .look = waits(actor) ? Look::kNote : Look::kPlain});
  }
}

void add_edges(Rows& to, const json& report, const Rates& rates) {
  for (const auto& edge : rows_of(report, "edges")) {
    const std::string id = edge_id(static_cast<int>(number(report, "rank")), edge);
    const EdgeRates now = rates.edge(id);
    const bool is_full = number(edge, "free") == 0 && number(edge, "capacity") > 0;
    const json bytes_per_s{{"bytes_per_s", edge.contains("bytes_per_s") ? number(edge, "bytes_per_s") : now.bytes_per_s.value_or(0)}};
    const bool has_bytes = edge.contains("bytes_per_s") || now.bytes_per_s;
    to.rows.push_back({.id = id,
                       .cells = {count(report, "rank"), word(edge, "from"), word(edge, "to"), absl::StrCat(count(edge, "free"), "/", count(edge, "capacity"), is_full ? "!" : ""),
                                 count(edge, "queued"), count(edge, "held"), rate(now.sent_per_s), has_bytes ? bytes(bytes_per_s, "bytes_per_s") : "-", count(edge, "sent")},
                       .weights = {number(edge, "queued"), number(edge, "in_flight"), now.sent_per_s.value_or(-1), number(edge, "held")},
                       .look = is_full ? Look::kNote : Look::kPlain});
  }
}

void add_collectives(Rows& to, const json& report) {
  for (const auto& open : rows_of(report, "collectives")) {
    const std::string missing = absl::StrJoin(rows_of(open, "missing"), ",", [](std::string* out, const json& rank) { absl::StrAppend(out, rank.dump()); });
    to.rows.push_back({.id = absl::StrCat(count(report, "rank"), "/", word(open, "group"), "/", count(open, "sequence")),
                       .cells = {count(report, "rank"), word(open, "what"), age(open, "since_s"), missing},
                       .weights = {0, number(open, "since_s"), 0, 0},
                       .look = missing.empty() ? Look::kPlain : Look::kNote});
  }
}

void add_streams(Rows& to, const json& report) {
  for (const auto& stream : rows_of(report, "streams")) {
    const std::string running = word(stream, "running");
    to.rows.push_back({.id = absl::StrCat(count(report, "rank"), "/", word(stream, "name")),
                       .cells = {count(report, "rank"), word(stream, "name"), word(stream, "kind"), absl::StrFormat("%.0f%%", number(stream, "busy_ratio") * 100), count(stream, "queued"),
                                 running.empty() ? "-" : running, running.empty() ? "-" : age(stream, "running_s"), count(stream, "done")},
                       .weights = {number(stream, "queued"), number(stream, "running_s"), number(stream, "busy_ratio"), 0}});
  }
}

Rows columns_of(View view) {
  switch (view) {
    case View::kActors:
      return {.columns = {{"RANK", true}, {"ACTOR"}, {"STATE", false, 0, 26}, {"SINCE", true, 3, 7}, {"DEPTH", true}, {"MOST", true, 7}, {"OLDEST", true, 5, 7}, {"DONE/S", true, 4, 6}, {"GROWTH/S", true, 6}, {"BUSY", true, 2}},
              .none = "no actor", .sort_columns = {4, 6, 9, 8, 1}};
    case View::kEdges:
      return {.columns = {{"RANK", true}, {"FROM"}, {"TO"}, {"FREE", true}, {"QUEUED", true, 2}, {"HELD", true, 3}, {"SENT/S", true, 4, 6}, {"BYTES/S", true, 5, 9}, {"SENT", true, 6}},
              .none = "no edge", .sort_columns = {4, 3, 6, 5, 1}};
    case View::kCollectives:
      return {.columns = {{"RANK", true}, {"COLLECTIVE"}, {"SINCE", true}, {"NOT ENTERED BY"}}, .none = "no collective is open", .sort_columns = {-1, 2, -1, -1, 1}};
    case View::kStreams:
      return {.columns = {{"RANK", true}, {"STREAM"}, {"KIND", false, 4}, {"BUSY", true}, {"QUEUED", true, 1}, {"RUNS"}, {"SINCE", true, 2, 7}, {"DONE", true, 3}}, .none = "no stream", .sort_columns = {4, 6, 3, -1, 1}};
    default:
      return {.columns = {{"RANK", true}, {"HOST", false, 3}, {"PID", true, 2}, {"MEMORY", true, 1, 8}, {"HIGHEST", true, 4, 8}, {"ACTORS", true, 6}, {"WAITING", true, 5}, {"ANSWER", false, 0, 40}}, .none = "no rank", .sort_columns = {6, -1, 3, -1, 1}};
  }
}

}  // namespace

Rows rows_of(View view, const json& frame, const Rates& rates) {
  Rows all = columns_of(view);
  for (const auto& report : rows_of(frame, "ranks")) {
    if (view == View::kRanks) add_rank(all, report);
    if (view == View::kActors) add_actors(all, report, rates);
    if (view == View::kEdges) add_edges(all, report, rates);
    if (view == View::kCollectives) add_collectives(all, report);
    if (view == View::kStreams) add_streams(all, report);
  }
  return all;
}

std::vector<std::string> waits_text(const json& frame) {
  std::vector<std::string> lines = absl::StrSplit(word(part_of(frame, "waits"), "text"), '\n', absl::SkipEmpty());
  if (lines.empty()) lines.emplace_back("who waits for whom is not known");
  return lines;
}

std::vector<std::string> actor_text(const json& mailbox, const json& peek) {
  std::vector<std::string> lines = absl::StrSplit(tool::inspect_text("mailbox", mailbox), '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (rows_of(peek, "events").empty()) return lines;
  lines.insert(lines.end(), {"", absl::StrCat("LAST EVENTS, NEWEST FIRST", number(peek, "lost") > 0 ? absl::StrCat(" (", count(peek, "lost"), " older ones lost)") : "")});
  const json& events = rows_of(peek, "events");
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    std::string line = absl::StrFormat("%10s ago  ", age(*event, "age_s"));
    absl::StrAppend(&line, word(*event, "kind"), " ", word(*event, "text"));
    if (number(*event, "others") > 0) absl::StrAppend(&line, ", after ", count(*event, "others"), " more of these");
    else if (event->contains("number") && number(*event, "number") >= 0) absl::StrAppend(&line, " ", count(*event, "number"));
    if (number(*event, "duration_s") > 0) absl::StrAppend(&line, ", took ", age(*event, "duration_s"));
    lines.push_back(std::move(line));
  }
  return lines;
}

const json& training_of(const json& frame) {
  static const json none;
  for (const auto& report : rows_of(frame, "ranks")) {
    if (const json& training = part_of(report, "training"); !training.empty()) return training;
  }
  return none;
}

std::string training_text(const json& training) {
  std::vector<std::string> parts;
  const auto has = [&](const char* key) { return training.contains(key) && training[key].is_number(); };
  const auto add = [&](const char* key, const std::string& text) {
    if (has(key)) parts.push_back(text);
  };
  add("step", absl::StrCat("step ", count(training, "step"), has("steps") ? absl::StrCat("/", count(training, "steps")) : ""));
  if (training.contains("loss") && training["loss"].is_null() && number(training, "step") > 0) parts.emplace_back("loss none!");  // nor a number
  add("loss", absl::StrFormat("loss %.4g", number(training, "loss")));
  add("tokens_per_s", absl::StrCat(short_number(number(training, "tokens_per_s")), " tok/s"));
  if (number(training, "mfu_ratio") > 0) add("mfu_ratio", absl::StrFormat("mfu %.2g%%", number(training, "mfu_ratio") * 100));
  add("step_s", absl::StrCat("a step ", age(training, "step_s")));
  // What has held up the last step, and whether the open one takes long.
  if (number(training, "data_wait_s") > 0.01 * number(training, "step_s")) add("data_wait_s", absl::StrCat("waits for data ", age(training, "data_wait_s")));
  if (number(training, "checkpoint_wait_s") > 0) add("checkpoint_wait_s", absl::StrCat("for checkpoints ", age(training, "checkpoint_wait_s")));
  if (number(training, "step_open_s") > 2 * number(training, "median_step_s")) add("step_open_s", absl::StrCat("open for ", age(training, "step_open_s"), "!"));
  add("goodput_ratio", absl::StrFormat("goodput %.0f%%", number(training, "goodput_ratio") * 100));
  if (number(training, "skipped_steps") > 0) add("skipped_steps", absl::StrCat(count(training, "skipped_steps"), " skipped"));
  if (number(training, "restarts") > 0) add("restarts", absl::StrCat(count(training, "restarts"), " restarts"));
  return absl::StrJoin(parts, "  ");
}

std::string summary_text(const json& frame) {
  int answer = 0, silent = 0, actors = 0, waiting = 0;
  double mail = 0, dead = 0;
  for (const auto& report : rows_of(frame, "ranks")) {
    ++(answered(report) ? answer : silent);
    for (const auto& actor : rows_of(report, "actors")) {
      ++actors;
      waiting += waits(actor) ? 1 : 0;
      mail += number(actor, "depth");
      dead += number(actor, "dead");
    }
    for (const auto& gone : rows_of(report, "tombstones")) dead += number(gone, "dead");
  }
  const std::size_t circles = rows_of(part_of(frame, "waits"), "cycles").size();
  std::string text = absl::StrCat(answer, answer == 1 ? " rank answers" : " ranks answer");
  if (silent > 0) absl::StrAppend(&text, ", ", silent, " SILENT");
  absl::StrAppend(&text, "; ", actors, " actors, ", waiting, " wait", circles > 0 ? absl::StrCat(", ", circles, circles == 1 ? " CIRCLE" : " CIRCLES") : "", "; ",
                  static_cast<std::int64_t>(mail), " messages wait");
  if (dead > 0) absl::StrAppend(&text, ", ", static_cast<std::int64_t>(dead), " dead");
  return text;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%.1fG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%.1fM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.1fk", value / 1e3);
  return absl::StrFormat("%.*f", size >= 99.95 || value == std::floor(value) ? 0 : 1, value);
}

}  // namespace troupe::top
