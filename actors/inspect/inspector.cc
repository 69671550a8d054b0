#include "actors/inspect/inspector.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "actors/inspect/last_events.h"
#include "actors/inspect/rank_answers.h"
#include "comm/join/secret.h"
#include "runtime/base/log.h"
#include "runtime/trace/json.h"

namespace troupe::actors {
namespace {

constexpr double kPatienceS = 1, kPatienceMostS = 10;
constexpr std::size_t kProgramBytesMost = 500;

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

// Of "3/stage-0" the rank and "stage-0"; of a name that begins otherwise no rank and all of it.
struct ActorId {
  std::optional<int> rank{};
  std::string name{};
};
ActorId actor_id(const std::string& text) {
  const std::size_t slash = text.find('/');
  int rank = 0;
  if (slash == std::string::npos || !absl::SimpleAtoi(text.substr(0, slash), &rank)) return {.name = text};
  return {.rank = rank, .name = text.substr(slash + 1)};
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || (inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

// Of a header: a loopback address or localhost, with or without a port.
bool is_loopback_name(const std::string& host) {
  const auto place = http_place(host.ends_with(']') ? host + ":80" : host);
  return is_loopback(place.ok() ? place->host : host);
}

// A path, under /v1/ where it does not begin with /: what the ranks are asked, and what is made of their answers.
struct Route {
  const char* path;
  const char* verb;
  StatusOr<std::string> (*view)(const Asked&, Replies);
  std::vector<std::string> words{};  // of the query that go with the question, besides brief
  bool about_an_actor = false;
  const char* list = "";     // of rows
  bool always_brief = false;
  const char* type = "application/json";
  bool tells = false;        // POST, with the token

  std::string whole_path() const { return *path == '/' ? path : absl::StrCat("/v1/", path); }
};
const Route kRoutes[] = {
    {.path = "job", .verb = "summary", .view = job_view},
    {.path = "ranks", .verb = "report", .view = ranks_view},
    {.path = "frame", .verb = "report", .view = frame_view, .always_brief = true},
    {.path = "actors", .verb = "rows", .view = rows_view, .list = "actors"},
    {.path = "edges", .verb = "rows", .view = rows_view, .list = "edges"},
    {.path = "streams", .verb = "rows", .view = rows_view, .list = "streams"},
    {.path = "collectives", .verb = "rows", .view = rows_view, .list = "collectives"},
    {.path = "tombstones", .verb = "rows", .view = rows_view, .list = "tombstones"},
    {.path = "mailbox", .verb = "actor", .view = mailbox_view, .about_an_actor = true},
    {.path = "peek", .verb = "peek", .view = peek_view, .words = {"since"}, .about_an_actor = true},
    {.path = "trace", .verb = "trace", .view = trace_view, .words = {"last_s", "since_unix_s"}},
    {.path = "compute", .verb = "report", .view = compute_view, .always_brief = true},
    {.path = "waits", .verb = "report", .view = waits_view, .always_brief = true},
    {.path = "config", .verb = "config", .view = config_view},
    {.path = "/metrics", .verb = "report", .view = metrics_view, .always_brief = true, .type = "text/plain; version=0.0.4; charset=utf-8"},
    {.path = "pause", .verb = "pause", .view = told_view, .about_an_actor = true, .tells = true},
    {.path = "resume", .verb = "resume", .view = told_view, .about_an_actor = true, .tells = true},
    {.path = "step", .verb = "step", .view = told_view, .about_an_actor = true, .tells = true},
};

StatusOr<const Route*> route_of(const std::string& path) {
  for (const auto& route : kRoutes) {
    if (path == route.whole_path()) return &route;
  }
  return absl::NotFoundError(absl::StrCat("there is no ", path, "; there are /v1/ping, /v1/schema, ",
                                          absl::StrJoin(kRoutes, ", ", [](std::string* out, const Route& route) { absl::StrAppend(out, route.whole_path()); })));
}

Question question_of(const Route& route, const HttpRequest& request, const ActorId& actor) {
  Question question{.verb = route.verb};
  if (route.always_brief || value_of(request, "brief") == "1") question.words["brief"] = "1";
  if (*route.list != '\0') question.words["list"] = route.list;
  if (route.about_an_actor) question.words["actor"] = actor.name;
  for (const auto& word : route.words) {
    if (const std::string value = value_of(request, word); !value.empty()) question.words[word] = value;
  }
  return question;
}

// What all that have answered find wrong with the question is the asker's to hear.
Status refused(Replies replies) {
  Status first;
  for (const auto& reply : replies) {
    if (reply.status.ok()) return ok();
    if (first.ok() && (absl::IsInvalidArgument(reply.status) || absl::IsNotFound(reply.status))) first = reply.status;
  }
  return first;
}

}  // namespace

Inspector::Inspector(Setup setup)
    : setup_(std::move(setup)),
      authority_(setup_.key.empty() && setup_.transport == nullptr ? comm::random_bytes(comm::kNonceBytes) : setup_.key, setup_.rank, setup_.world) {
  for (auto& rank : setup_.ranks) rank.refused = [this] { return authority_.refused(); };
  card_ = {.job = setup_.job, .rank = setup_.rank, .world = setup_.world, .pid = getpid(), .host = this_host(),
           .program = setup_.program.empty() ? command_line() : setup_.program, .output = setup_.output,
           .started_unix_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
  if (setup_.transport != nullptr) {
    tree_ = std::make_unique<comm::InspectTree>(
        setup_.transport, [this](std::string_view text) {
          const auto question = question_from_text(text);
          return answer_to_text(question.ok() ? answer_here(*question) : StatusOr<std::string>(question.status()));
        });
  }
  if (const Status status = open_door(); !status.ok()) log_warning(absl::StrCat("troupe inspect will not find this process: ", std::string(status.message())));
}

void Inspector::peer_down(Rank peer, const Status& cause) {
  lost(peer, cause);
  if (tree_) tree_->peer_down(peer, cause);
}

void Inspector::lost(Rank peer, const Status& cause) {
  if (peer.value >= 0 && peer.value < setup_.world) silences_.lost(peer.value, cause, clock_.now_ns());
}

std::vector<trace::RankReport> Inspector::reports(std::chrono::nanoseconds patience) {
  return reports_of(ask({.verb = "report", .words = {{"brief", "1"}}}, {}, patience));
}

std::vector<trace::EventRow> Inspector::last_events(int rank, const std::string& actor, std::chrono::nanoseconds patience) {
  const auto replies = ask({.verb = "peek", .words = {{"actor", actor}}}, {rank}, patience);
  return replies.empty() || !replies.front().status.ok() ? std::vector<trace::EventRow>() : last_events_of(replies.front().text);
}

Status Inspector::open_door() {
  TROUPE_ASSIGN_OR_RETURN(const std::string folder, open_runtime_folder());
  TROUPE_ASSIGN_OR_RETURN(auto posted, PostedCard::post(folder, card_, authority_.token()));
  TROUPE_ASSIGN_OR_RETURN(server_, HttpServer::listen({.socket = posted.socket()}, behind(Door::kSocket)));
  posted_.emplace(std::move(posted));
  return ok();
}

Status Inspector::listen(const std::string& address) {
  TROUPE_ASSIGN_OR_RETURN(const HttpPlace place, http_place(address));
  const Door door = is_loopback(place.host) ? Door::kLoopback : Door::kFar;
  if (door == Door::kFar && authority_.token().empty())
    return absl::FailedPreconditionError(absl::StrCat("cannot listen at ", address, ", which others reach, too: this program gave its inspector no key for a token"));
  TROUPE_ASSIGN_OR_RETURN(far_server_, HttpServer::listen(place, behind(door)));
  return ok();
}

HttpServer::Handler Inspector::behind(Door door) {
  return [this, door](const HttpRequest& request) -> StatusOr<HttpAnswer> {
    TROUPE_RETURN_IF_ERROR(admit(door, request));
    return answer(request);
  };
}

Status Inspector::admit(Door door, const HttpRequest& request) {
  if (!request.token.empty()) return authority_.check(request.token);  // a wrong one is refused also where none is needed
  if (door == Door::kSocket) return request.method == "POST" ? authority_.check("") : ok();
  if (door == Door::kFar || request.method == "POST") {
    authority_.refuse();
    return absl::PermissionDeniedError("this needs the job's token, as Authorization: Bearer TOKEN; of troupe with --token-file FILE");
  }
  // A page from elsewhere, whose name its owner lets point to this machine, could else read what its visitor may.
  if (is_loopback_name(request.host)) return ok();
  authority_.refuse();
  return absl::PermissionDeniedError("without a token this is answered only to who calls it localhost, 127.0.0.1 or [::1]");
}

StatusOr<HttpAnswer> Inspector::answer(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "POST") {
    return absl::UnimplementedError("only GET and POST are answered here");
  }
  if (request.path == "/v1/ping") return HttpAnswer{.body = "{}"};
  if (request.path == "/v1/schema") return HttpAnswer{.body = std::string(trace::schema_page()), .type = "text/markdown; charset=utf-8"};
  TROUPE_ASSIGN_OR_RETURN(const Route* const route, route_of(request.path));
  if (route->tells != (request.method == "POST")) return absl::UnimplementedError(absl::StrCat(request.path, " is asked with ", route->tells ? "POST" : "GET"));
  TROUPE_ASSIGN_OR_RETURN(const double patience_s, patience_of(request));
  const std::chrono::nanoseconds patience(static_cast<std::int64_t>(patience_s * 1e9));
  TROUPE_ASSIGN_OR_RETURN(auto ranks, ranks_of(request, setup_.world));
  const std::string named = value_of(request, "actor");
  if (route->about_an_actor && named.empty()) return absl::InvalidArgumentError(absl::StrCat("whose ", route->path, "? /v1/", route->path, "?actor=RANK/NAME"));
  ActorId actor = actor_id(named);
  if (route->about_an_actor && actor.rank) ranks = {*actor.rank};
  Question question = question_of(*route, request, actor);
  if (route->tells) {
    if (!actor.rank) {
      TROUPE_ASSIGN_OR_RETURN(actor.rank, rank_of(named, patience));
    }
    if (*actor.rank < 0 || *actor.rank >= setup_.world)
      return absl::NotFoundError(absl::StrCat("there is no actor ", named, ": this job has ranks 0 to ", setup_.world - 1));
    ranks = {*actor.rank};
    question.words["rank"] = absl::StrCat(*actor.rank);
  }
  const auto replies = ask(question, ranks, patience);
  TROUPE_RETURN_IF_ERROR(refused(replies));
  TROUPE_ASSIGN_OR_RETURN(std::string body, route->view({.card = card_, .list = route->list, .actor = named, .is_brief = value_of(request, "brief") == "1"}, replies));
  return HttpAnswer{.body = std::move(body), .type = route->type};
}

StatusOr<std::string> Inspector::answer_here(const Question& question) {
  const auto answered = [&](bool is_authorised) { return actors::answer(setup_.ranks.front(), question, is_authorised); };
  return changes_something(question) ? authority_.once(question, [&] { return answered(true); }) : answered(false);
}

// The one that has an actor of that name.
StatusOr<int> Inspector::rank_of(const std::string& actor, std::chrono::nanoseconds patience) {
  const auto replies = ask({.verb = "actor", .words = {{"actor", actor}}}, {}, patience);
  for (const auto& reply : replies) {
    if (!reply.status.ok())
      return absl::FailedPreconditionError(absl::StrCat("rank ", reply.rank, " does not answer, and may have an actor ", actor, ", too: say RANK/", actor));
  }
  TROUPE_RETURN_IF_ERROR(mailbox_view({.card = card_, .actor = actor}, replies).status());
  const auto has_it = [](const RankReply& reply) { return reply.status.ok() && reply.text.size() > 2; };
  return std::ranges::find_if(replies, has_it)->rank;
}

namespace {

// Else it is the question or the answer that does not pass.
bool is_silence(const Status& status) { return status.code() == absl::StatusCode::kDeadlineExceeded || status.code() == absl::StatusCode::kUnavailable; }

}  // namespace

std::vector<RankReply> Inspector::ask(Question question, const std::vector<int>& only, std::chrono::nanoseconds patience) {
  const auto is_asked = [&](int rank) { return only.empty() || std::ranges::find(only, rank) != only.end(); };
  const auto reply_of = [](int rank, StatusOr<std::string> answer, std::int64_t after_ns) {
    return answer.ok() ? RankReply{.rank = rank, .status = ok(), .text = *std::move(answer), .after_ns = after_ns} : RankReply{.rank = rank, .status = answer.status()};
  };
  std::vector<RankReply> replies;
  const std::lock_guard lock(asking_);
  const std::int64_t asked_ns = clock_.now_ns();
  if (changes_something(question)) authority_.sign(question);  // in the order in which they go
  if (!tree_) {
    for (const auto& rank : setup_.ranks) {
      if (!is_asked(rank.rank.value)) continue;
      auto answered = actors::answer(rank, question, true);
      replies.push_back(reply_of(rank.rank.value, std::move(answered), clock_.now_ns() - asked_ns));
    }
    return replies;
  }
  for (const auto& reply : tree_->ask(to_text(question), patience)) {
    const int rank = reply.rank.value;
    if (reply.status.ok()) {
      silences_.answered(rank);
      if (is_asked(rank)) replies.push_back(reply_of(rank, answer_from_text(reply.text), reply.after_ns));
      continue;
    }
    if (!is_silence(reply.status)) {
      silences_.answered(rank);
      if (is_asked(rank)) replies.push_back({.rank = rank, .status = reply.status});
      continue;
    }
    const auto silence = silences_.left_open(rank, reply.status, asked_ns);
    if (is_asked(rank)) replies.push_back({.rank = rank, .status = silence.why, .silent_s = seconds(clock_.now_ns() - silence.since_ns)});
  }
  return replies;
}

}  // namespace troupe::actors
