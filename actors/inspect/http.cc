#include "actors/inspect/http.h"

#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actors/inspect/bounded_socket.h"

namespace troupe::actors {
namespace {

constexpr int kAnyPort = 80;  // httplib wants one, a unix socket has none
const std::string kBearer = "Bearer ";

constexpr struct {
  absl::StatusCode code;
  int http;
} kCodes[] = {{absl::StatusCode::kOk, 200},
              {absl::StatusCode::kInvalidArgument, 400},
              {absl::StatusCode::kUnauthenticated, 401},
              {absl::StatusCode::kPermissionDenied, 403},
              {absl::StatusCode::kNotFound, 404},
              {absl::StatusCode::kUnimplemented, 405},
              {absl::StatusCode::kFailedPrecondition, 409},
              {absl::StatusCode::kResourceExhausted, 429},
              {absl::StatusCode::kUnavailable, 503}};

int http_status(const Status& status) {
  for (const auto& [code, http] : kCodes) {
    if (code == status.code()) return http;
  }
  return 503;
}

absl::StatusCode code_of(int http_status) {
  for (const auto& [code, http] : kCodes) {
    if (http == http_status) return code;
  }
  return absl::StatusCode::kUnavailable;
}

std::string error_text(const Status& status) {
  return nlohmann::json{{"schema", 1}, {"error", std::string(status.message())}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string error_in(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  return json.is_object() && json.contains("error") && json["error"].is_string() ? json["error"].get<std::string>() : body;
}

HttpRequest request_of(const httplib::Request& asked) {
  HttpRequest request{.method = asked.method, .path = asked.path, .host = asked.get_header_value("Host")};
  for (const auto& [key, value] : asked.params) request.query.emplace(key, value);
  const std::string authorization = asked.get_header_value("Authorization");
  if (authorization.starts_with(kBearer)) request.token = authorization.substr(kBearer.size());
  return request;
}

// A port that another listens at is an error: httplib's own choice, SO_REUSEPORT, would share it.
void may_follow_a_dead_one(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

std::string text_of(const HttpPlace& place) { return place.socket.empty() ? absl::StrCat(place.host, ":", place.port) : place.socket; }

}  // namespace

StatusOr<HttpPlace> http_place(const std::string& text, int least) {
  const std::size_t colon = text.rfind(':');
  HttpPlace place;
  const auto wrong = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no address: ", why, "; say HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070"));
  };
  if (colon == std::string::npos) return wrong("it has no port");
  place.host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  const bool is_number = !port.empty() && std::ranges::all_of(port, [](unsigned char c) { return absl::ascii_isdigit(c); });
  if (!is_number || port.size() > 5 || !absl::SimpleAtoi(port, &place.port) || place.port > 65535 || place.port < least)
    return wrong(least > 0 ? "the port is a number from 1 to 65535" : "the port is a number from 0 to 65535, 0 any that is free");
  const bool in_brackets = place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']';
  if (in_brackets) place.host = place.host.substr(1, place.host.size() - 2);
  if (place.host.empty()) return wrong("it has no host");
  if (place.host.find_first_of(" /@?#\\[]") != std::string::npos) return wrong("that is no host's name");
  if (!in_brackets && place.host.find(':') != std::string::npos) return wrong("an IPv6 address stands in brackets");
  return place;
}

namespace {

class Connection final : public httplib::Stream {
 public:
  Connection(int socket, const std::atomic<bool>& ending) : socket_(socket, ending) {}
  bool is_readable() const override { return socket_.is_readable(); }
  bool is_writable() const override { return socket_.is_there(); }
  ssize_t read(char* to, std::size_t most) override { return socket_.read(to, most); }
  ssize_t write(const char* from, std::size_t bytes) override { return socket_.write(from, bytes); }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_.socket(); }

 private:
  mutable BoundedSocket socket_;
};

// One request a connection; httplib's own would read headers without end, and for as long as a byte a second comes.
class BoundedServer final : public httplib::Server {
 public:
  std::atomic<bool> ending{false};

 private:
  bool process_and_close_socket(socket_t socket) override {
    if (ending) {
      close(socket);
      return false;
    }
    Connection connection(socket, ending);
    bool is_closed = false;
    return process_request(connection, true, is_closed, nullptr);
  }
};

// Takes no more connections than it has threads for and kWaitingMost: httplib's own would take all descriptors of the process, for whoever only connects.
class BoundedPool final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override {
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [this] { return waiting_ < kWaitingMost; });
      ++waiting_;
    }
    threads_.enqueue([this, task = std::move(task)] {
      {
        const std::lock_guard lock(mutex_);
        --waiting_;
      }
      room_.notify_one();
      task();
    });
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  static constexpr int kWaitingMost = 32;

  httplib::ThreadPool threads_{kHandlersMost + kStreamsMost};
  std::mutex mutex_;  // guards what follows
  std::condition_variable room_;
  int waiting_ = 0;
};

// A page of another site that a browser shows may neither ask nor tell; who follows a link from there may come.
bool is_of_another_site(const httplib::Request& asked) {
  return asked.get_header_value("Sec-Fetch-Site") == "cross-site" && asked.get_header_value("Sec-Fetch-Mode") != "navigate";
}

}  // namespace

struct HttpServer::Parts {
  void answer(const httplib::Request& asked, httplib::Response& response);
  void stream(const HttpAnswer& answer, httplib::Response& response);

  Handler handler;
  BoundedServer server;
  int port = 0;
  std::atomic<int> streams{0};
  std::atomic<bool> ended{false};
  std::thread thread;
};

void HttpServer::Parts::answer(const httplib::Request& asked, httplib::Response& response) {
  const_cast<httplib::Request&>(asked).ranges.clear();  // httplib would put as many copies of the answer together as are asked for
  StatusOr<HttpAnswer> answer = is_of_another_site(asked) ? absl::PermissionDeniedError("a page of another site asks") : handler(request_of(asked));
  if (answer.ok() && answer->next && streams.fetch_add(1) >= kStreamsMost) {
    --streams;
    answer = absl::ResourceExhaustedError(absl::StrCat(kStreamsMost, " others are being told already"));
  }
  response.status = http_status(answer.status());
  if (!answer.ok()) return response.set_content(error_text(answer.status()), "application/json");
  for (const auto& [key, value] : answer->headers) response.set_header(key, value);
  if (answer->next) return stream(*answer, response);
  response.set_content(answer->body, answer->type);
}

void HttpServer::Parts::stream(const HttpAnswer& answer, httplib::Response& response) {
  const auto write_next = [this, next = answer.next](std::size_t, httplib::DataSink& sink) {
    if (server.ending || !sink.is_writable()) return false;
    const auto piece = next();
    if (!piece) sink.done();
    else if (!piece->empty()) return sink.write(piece->data(), piece->size());
    return true;
  };
  response.set_chunked_content_provider(answer.type, write_next, [this](bool) { --streams; });
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpPlace& place, Handler handler) {
  struct sigaction pipe{};
  sigaction(SIGPIPE, nullptr, &pipe);
  auto parts = std::make_unique<Parts>();  // httplib ignores SIGPIPE for the whole process
  sigaction(SIGPIPE, &pipe, nullptr);
  parts->handler = std::move(handler);
  auto& server = parts->server;
  if (!place.socket.empty()) server.set_address_family(AF_UNIX);
  server.set_socket_options(may_follow_a_dead_one);
  server.set_tcp_nodelay(place.socket.empty());
  server.new_task_queue = [] { return new BoundedPool; };
  server.set_pre_routing_handler([parts = parts.get()](const httplib::Request& asked, httplib::Response& response) {
    parts->answer(asked, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  const bool any_port = place.socket.empty() && place.port == 0;
  errno = 0;
  parts->port = any_port ? server.bind_to_any_port(place.host) : place.port;
  if (any_port ? parts->port <= 0 : !server.bind_to_port(place.socket.empty() ? place.host : place.socket, place.socket.empty() ? place.port : kAnyPort))
    return absl::UnavailableError(absl::StrCat("cannot listen at ", text_of(place), ": ", errno != 0 ? std::strerror(errno) : "no such address"));
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
  parts_->server.ending = true;
  // stop() before the thread has come to listen would be overheard.
  while (!parts_->server.is_running() && !parts_->ended) std::this_thread::yield();
  parts_->server.stop();
  parts_->thread.join();
}

int HttpServer::port() const { return parts_->port; }

namespace {

template <class Send>
StatusOr<std::string> send_to(const HttpPlace& place, std::chrono::nanoseconds patience, Send send) {
  const bool is_unix = !place.socket.empty();
  httplib::Client client(is_unix ? place.socket : place.host, is_unix ? kAnyPort : place.port);
  if (is_unix) client.set_address_family(AF_UNIX);
  client.set_connection_timeout(patience);
  client.set_read_timeout(patience);
  httplib::Headers headers;
  if (!place.token.empty()) headers.emplace("Authorization", absl::StrCat(kBearer, place.token));
  const auto result = send(client, headers);
  if (!result) return absl::UnavailableError(absl::StrCat(text_of(place), ": ", result.error() == httplib::Error::Connection ? "nobody takes connections there" : httplib::to_string(result.error())));
  if (result->status == 200) return result->body;
  return Status(code_of(result->status), error_in(result->body));
}

}  // namespace

StatusOr<std::string> http_get(const HttpPlace& place, const std::string& target, std::chrono::nanoseconds patience) {
  return send_to(place, patience, [&](httplib::Client& client, const httplib::Headers& headers) { return client.Get(target, headers); });
}

StatusOr<std::string> http_post(const HttpPlace& place, const std::string& target, std::chrono::nanoseconds patience) {
  return send_to(place, patience, [&](httplib::Client& client, const httplib::Headers& headers) { return client.Post(target, headers, "", "text/plain"); });
}

std::string in_query(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) encoded += c;
    else absl::StrAppend(&encoded, "%", absl::BytesToHexString(std::string(1, c)));
  }
  return encoded;
}

}  // namespace troupe::actors
