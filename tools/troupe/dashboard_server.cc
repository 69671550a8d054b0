#include "tools/troupe/dashboard_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tools/dashboard/page.h"

namespace troupe::tool {
namespace {

using actors::HttpAnswer;
using actors::HttpRequest;

constexpr auto kPiecePatience = std::chrono::milliseconds(900);
constexpr int kQuietPieces = 5;  // then a line that says nothing, so that the page knows we are there
// Of a job, what the page may pass on: all of it only looks.
constexpr const char* kJobViews[] = {"/v1/mailbox", "/v1/peek", "/v1/trace", "/v1/config"};
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool is_of_this_machine(std::string_view host) { return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "[::1]"; }

// Of "host:port" and "[::1]:port".
std::string_view host_name(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string_view::npos || host.find(']', colon) != std::string_view::npos ? host : host.substr(0, colon);
}

// Takes as long wherever they differ.
bool same_token(const std::string& a, const std::string& b) {
  unsigned differ = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differ == 0;
}

HttpAnswer guarded(HttpAnswer answer) {
  answer.headers = {{"Content-Security-Policy", kPolicy}, {"X-Content-Type-Options", "nosniff"}, {"X-Frame-Options", "DENY"},
                    {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-store"}};
  return answer;
}

std::function<std::optional<std::string>()> stream_of(const DashboardFeed& feed) {
  return [&feed, seen = DashboardFeed::Seen{}, quiet = 0]() mutable -> std::optional<std::string> {
    const auto news = feed.wait(seen, kPiecePatience);
    std::string piece;
    if (news.frame) absl::StrAppend(&piece, "event: frame\ndata: ", *news.frame, "\n\n");
    if (!news.state.empty()) absl::StrAppend(&piece, "event: status\ndata: ", news.state, "\n\n");
    quiet = piece.empty() ? quiet + 1 : 0;
    if (quiet < kQuietPieces) return piece;
    quiet = 0;
    return ":\n\n";
  };
}

}  // namespace

StatusOr<std::unique_ptr<DashboardServer>> DashboardServer::open(const actors::HttpPlace& place, const DashboardFeed& feed) {
  if (!is_of_this_machine(place.host) && place.token.empty())
    return absl::InvalidArgumentError(absl::StrCat("dashboard: ", place.host, " can be reached from other machines: say --token-file FILE with what pages must show, or listen at 127.0.0.1"));
  std::unique_ptr<DashboardServer> made(new DashboardServer(place, feed));
  auto server = actors::HttpServer::listen(place, [made = made.get()](const HttpRequest& request) { return made->answer(request); });
  if (!server.ok()) return Status(server.status().code(), absl::StrCat("dashboard: ", server.status().message(), "; --listen ", place.host, ":0 takes any port that is free"));
  made->server_ = *std::move(server);
  return made;
}

std::string DashboardServer::address() const {
  const bool is_v6 = place_.host.find(':') != std::string::npos;
  return absl::StrCat("http://", is_v6 ? "[" : "", place_.host, is_v6 ? "]" : "", ":", server_->port(), "/");
}

Status DashboardServer::may_ask(const HttpRequest& request) const {
  if (request.method != "GET") return absl::UnimplementedError("only GET is answered here");
  if (place_.token.empty() && !is_of_this_machine(host_name(request.host)))
    return absl::PermissionDeniedError(absl::StrCat("this dashboard answers to localhost and 127.0.0.1, not to ", request.host));
  return ok();
}

StatusOr<HttpAnswer> DashboardServer::answer(const HttpRequest& request) const {
  TROUPE_RETURN_IF_ERROR(may_ask(request));
  const std::string path = request.path == "/" ? "/index.html" : request.path;
  for (const auto& file : dashboard::page_files()) {
    if (file.path == path) return guarded({.body = std::string(file.bytes), .type = std::string(file.type)});
  }
  if (!place_.token.empty() && !same_token(request.token, place_.token)) return absl::UnauthenticatedError("the token is missing or wrong: open the page as /#token=TOKEN");
  TROUPE_ASSIGN_OR_RETURN(HttpAnswer answer, data(request));
  return guarded(std::move(answer));
}

StatusOr<HttpAnswer> DashboardServer::data(const HttpRequest& request) const {
  if (request.path == "/v1/stream") return HttpAnswer{.type = "text/event-stream", .next = stream_of(feed_)};
  if (request.path == "/v1/history") return HttpAnswer{.body = feed_.history()};
  if (request.path == "/v1/status") return HttpAnswer{.body = feed_.state()};
  if (std::ranges::find(kJobViews, request.path) == std::end(kJobViews))
    return absl::NotFoundError(absl::StrCat("there is no ", request.path, "; /v1/ has stream, history, status, mailbox, peek, trace, config"));
  std::string target = request.path;
  for (const auto& [key, value] : request.query) absl::StrAppend(&target, target == request.path ? "?" : "&", actors::in_query(key), "=", actors::in_query(value));
  auto body = feed_.ask(target);
  if (body.ok()) return HttpAnswer{.body = *std::move(body)};
  // That a job has no such view, or has ended, is an answer: pages ask again, and a browser would write each refusal in its console.
  return HttpAnswer{.body = nlohmann::json{{"schema", 1}, {"error", std::string(body.status().message())}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace troupe::tool
