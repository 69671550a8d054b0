#include "actors/inspect/http.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"

namespace troupe::actors {
namespace {

constexpr int kAnyPort = 80;  // httplib wants one, a unix socket has none
constexpr int kReadTimeoutS = 1;

int http_status(const Status& status) {
  if (status.ok()) return 200;
  if (absl::IsNotFound(status)) return 404;
  if (absl::IsInvalidArgument(status)) return 400;
  if (absl::IsUnimplemented(status)) return 405;
  return 503;
}

std::string error_text(const Status& status) {
  return nlohmann::json{{"schema", 1}, {"error", std::string(status.message())}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string error_in(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  return json.is_object() && json.contains("error") && json["error"].is_string() ? json["error"].get<std::string>() : body;
}

}  // namespace

struct HttpServer::Parts {
  Handler handler;
  httplib::Server server;
  std::atomic<bool> ended{false};
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& socket, Handler handler) {
  struct sigaction pipe{};
  sigaction(SIGPIPE, nullptr, &pipe);
  auto parts = std::make_unique<Parts>();  // httplib ignores SIGPIPE for the whole process
  sigaction(SIGPIPE, &pipe, nullptr);
  parts->handler = std::move(handler);
  auto& server = parts->server;
  server.set_address_family(AF_UNIX);
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kReadTimeoutS);
  server.set_read_timeout(kReadTimeoutS);
  server.set_write_timeout(kReadTimeoutS);
  server.new_task_queue = [] { return new httplib::ThreadPool(kHandlersMost); };
  server.set_pre_routing_handler([&answer = parts->handler](const httplib::Request& asked, httplib::Response& response) {
    HttpRequest request{.path = asked.path, .query = {}};
    for (const auto& [key, value] : asked.params) request.query.emplace(key, value);
    const StatusOr<std::string> body = asked.method == "GET" ? answer(request) : absl::UnimplementedError("only GET is answered here");
    response.status = http_status(body.status());
    response.set_content(body.ok() ? *body : error_text(body.status()), "application/json");
    return httplib::Server::HandlerResponse::Handled;
  });
  if (!server.bind_to_port(socket, kAnyPort)) return absl::UnavailableError(absl::StrCat("cannot listen at ", socket, ": ", std::strerror(errno)));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the server's threads inherit it
  parts->thread = std::thread([&server, &ended = parts->ended] {
    server.listen_after_bind();
    ended = true;
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::~HttpServer() {
  // stop() before the thread has come to listen would be overheard.
  while (!parts_->server.is_running() && !parts_->ended) std::this_thread::yield();
  parts_->server.stop();
  parts_->thread.join();
}

StatusOr<std::string> http_get(const std::string& socket, const std::string& target, std::chrono::nanoseconds patience) {
  httplib::Client client(socket, kAnyPort);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(patience);
  client.set_read_timeout(patience);
  const auto result = client.Get(target);
  if (!result) return absl::UnavailableError(absl::StrCat(socket, ": ", httplib::to_string(result.error())));
  if (result->status == 200) return result->body;
  const std::string why = error_in(result->body);
  return result->status == 404 ? absl::NotFoundError(why) : result->status == 400 ? absl::InvalidArgumentError(why) : absl::UnavailableError(why);
}

}  // namespace troupe::actors
