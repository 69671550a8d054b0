// HTTP over a unix socket, both ends, through cpp-httplib, which no other file sees: GET only, one request a connection.
//
// Threads: one makes and destroys a server; its handler runs on threads of the server, several at once. These take no signals, and what
// SIGPIPE does to the process stays as it was. http_get by any. Owns: the server its threads and the socket's name.
// Errors: kUnavailable: nobody listens or answers in time; an answer that is not 200: its text, as kNotFound or kInvalidArgument.
// Limits: kHandlersMost requests at a time, the others wait; who says nothing is cut off after a second.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace troupe::actors {

inline constexpr int kHandlersMost = 4;

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> query;
};

class HttpServer {
 public:
  // Gives the body, JSON; a Status that is not ok becomes an answer that says so.
  using Handler = std::function<StatusOr<std::string>(const HttpRequest&)>;
  static StatusOr<std::unique_ptr<HttpServer>> listen(const std::string& socket, Handler handler);
  ~HttpServer();  // after the requests that are being answered

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

// `target`: the path with its query.
StatusOr<std::string> http_get(const std::string& socket, const std::string& target, std::chrono::nanoseconds patience);

}  // namespace troupe::actors
