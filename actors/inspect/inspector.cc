#include "actors/inspect/inspector.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "actors/inspect/views.h"
#include "runtime/base/log.h"
#include "runtime/trace/json.h"

namespace troupe::actors {
namespace {

constexpr double kPatienceS = 1, kPatienceMostS = 10;
constexpr std::size_t kProgramBytesMost = 500;
constexpr const char* kBrief = "brief";  // the question; another one asks for everything

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (!words.empty()) words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words.substr(0, kProgramBytesMost);
}

std::string value_of(const HttpRequest& request, const std::string& key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

StatusOr<double> patience_of(const HttpRequest& request) {
  const std::string text = value_of(request, "patience_s");
  double seconds = kPatienceS;
  if (!text.empty() && (!absl::SimpleAtod(text, &seconds) || !(seconds > 0 && seconds <= kPatienceMostS)))
    return absl::InvalidArgumentError(absl::StrCat("patience_s = ", text, " is not a number above 0, at most ", kPatienceMostS));
  return seconds;
}

StatusOr<std::vector<int>> ranks_of(const HttpRequest& request, int world) {
  const std::string text = value_of(request, "ranks");
  std::vector<int> ranks;
  if (text.empty()) return ranks;
  for (const auto word : absl::StrSplit(text, ',')) {
    int rank = -1;
    if (!absl::SimpleAtoi(word, &rank) || rank < 0 || rank >= world)
      return absl::InvalidArgumentError(absl::StrCat("ranks = ", text, ": '", word, "' is no rank of this job, which has 0 to ", world - 1));
    ranks.push_back(rank);
  }
  return ranks;
}

std::string unanswered(Rank rank, const Status& why) {
  trace::RankReport report;
  report.rank = rank.value;
  report.answered = false;
  report.error = std::string(why.message());
  return trace::to_json(report);
}

}  // namespace

Inspector::Inspector(Setup setup) : setup_(std::move(setup)) {
  card_ = {.job = setup_.job, .rank = setup_.rank, .world = setup_.world, .pid = getpid(), .host = this_host(),
           .program = setup_.program.empty() ? command_line() : setup_.program, .output = setup_.output,
           .started_unix_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
  if (setup_.transport != nullptr) {
    tree_ = std::make_unique<comm::InspectTree>(
        setup_.transport, [this](std::string_view question) { return trace::to_json(setup_.reports.front()(), question == kBrief); });
  }
  if (const Status status = open_door(); !status.ok()) log_warning(absl::StrCat("troupe inspect will not find this process: ", std::string(status.message())));
}

Status Inspector::open_door() {
  TROUPE_ASSIGN_OR_RETURN(const std::string folder, open_runtime_folder());
  TROUPE_ASSIGN_OR_RETURN(auto posted, PostedCard::post(folder, card_));
  TROUPE_ASSIGN_OR_RETURN(server_, HttpServer::listen(posted.socket(), [this](const HttpRequest& request) { return answer(request); }));
  posted_.emplace(std::move(posted));
  return ok();
}

StatusOr<std::string> Inspector::answer(const HttpRequest& request) {
  if (request.path == "/v1/ping") return "{}";
  const std::string what = request.path.starts_with("/v1/") ? request.path.substr(4) : "";
  const bool is_rows = what == "actors" || what == "edges" || what == "collectives";
  if (!is_rows && what != "job" && what != "ranks" && what != "mailbox" && what != "waits")
    return absl::NotFoundError(absl::StrCat("there is no ", request.path, "; /v1/ has ping, job, ranks, actors, edges, collectives, mailbox, waits"));
  TROUPE_ASSIGN_OR_RETURN(const double patience_s, patience_of(request));
  TROUPE_ASSIGN_OR_RETURN(const auto ranks, ranks_of(request, setup_.world));
  const std::string actor = value_of(request, "actor");
  if (what == "mailbox" && actor.empty()) return absl::InvalidArgumentError("whose mailbox? /v1/mailbox?actor=RANK/NAME");
  const bool brief = value_of(request, "brief") == "1" || what == "job";
  const auto reports = ask(brief, ranks, std::chrono::nanoseconds(static_cast<std::int64_t>(patience_s * 1e9)));
  if (what == "job") return job_view(card_, reports);
  if (what == "ranks") return ranks_view(setup_.job, reports);
  if (what == "mailbox") return mailbox_view(setup_.job, actor, reports);
  if (what == "waits") return waits_view(reports);
  return rows_view(setup_.job, what, reports);
}

std::vector<std::string> Inspector::ask(bool brief, const std::vector<int>& only, std::chrono::nanoseconds patience) {
  const auto is_asked = [&](int rank) { return only.empty() || std::ranges::find(only, rank) != only.end(); };
  std::vector<std::string> texts;
  const std::lock_guard lock(asking_);
  if (!tree_) {
    for (const auto& report_of : setup_.reports) {
      if (const auto report = report_of(); is_asked(report.rank)) texts.push_back(trace::to_json(report, brief));
    }
    return texts;
  }
  for (const auto& reply : tree_->ask(brief ? kBrief : "", patience)) {
    if (is_asked(reply.rank.value)) texts.push_back(reply.status.ok() ? reply.text : unanswered(reply.rank, reply.status));
  }
  return texts;
}

}  // namespace troupe::actors
