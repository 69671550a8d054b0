// HTTP on a unix socket or a TCP port, both ends, through cpp-httplib, which no other file sees: one request a connection; bodies of requests are not read.
//
// Threads: one makes and destroys a server; its handler runs on threads of the server, several at once. These take no signals, and what
// SIGPIPE does to the process stays as it was. The clients by any. Owns: the server its threads and the socket's name.
// Errors: kUnavailable: nobody listens or answers in time, an address that cannot be had; an answer that is not 200: its text, with the code that
//         kCodes in http.cc has for it.
// Limits: kHandlersMost requests at a time, the others wait; beyond them kStreamsMost endless answers, the next is refused; who says nothing is cut off after a second, and
//         whatever a request is, it is over soon (bounded_socket.h).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace troupe::actors {

inline constexpr int kHandlersMost = 4, kStreamsMost = 8;

struct HttpRequest {
  std::string method{}, path{};
  std::map<std::string, std::string> query{};
  std::string token{};  // of "Authorization: Bearer", empty without
  std::string host{};   // as the client calls this server: its header of that name
};

struct HttpAnswer {
  std::string body{};
  std::string type = "application/json";
  std::map<std::string, std::string> headers{};
  // Instead of a body: pieces, until it gives none or the client goes. May take a second for each, an empty one only asks whether the client is still there.
  std::function<std::optional<std::string>()> next{};
};

// Where a server is: a unix socket, or a TCP port where that is empty.
struct HttpPlace {
  std::string socket{};
  std::string host{};
  int port = 0;         // to listen at: 0 is any that is free
  std::string token{};  // what a client shows
};

// Of "127.0.0.1:7070", "[::1]:7070", "node-3:7070". kInvalidArgument: it is none, or the port is below `least`.
StatusOr<HttpPlace> http_place(const std::string& text, int least = 0);

class HttpServer {
 public:
  // A Status that is not ok becomes an answer that says so.
  using Handler = std::function<StatusOr<HttpAnswer>(const HttpRequest&)>;
  static StatusOr<std::unique_ptr<HttpServer>> listen(const HttpPlace& place, Handler handler);
  ~HttpServer();  // after the requests that are being answered; endless answers end
  int port() const;

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

// `target`: the path with its query.
StatusOr<std::string> http_get(const HttpPlace& place, const std::string& target, std::chrono::nanoseconds patience);
StatusOr<std::string> http_post(const HttpPlace& place, const std::string& target, std::chrono::nanoseconds patience);
// All but letters and digits as %xx, so that it does not matter who decodes what.
std::string in_query(const std::string& text);

}  // namespace troupe::actors
