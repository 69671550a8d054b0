// A client of an HTTP server on a loopback port that sends what it likes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace troupe::test {

class RawHttp {
 public:
  explicit RawHttp(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~RawHttp() { close(socket_); }
  RawHttp(const RawHttp&) = delete;
  RawHttp& operator=(const RawHttp&) = delete;

  // As much as the server takes before it hangs up.
  void say(const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t bytes = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (bytes <= 0) return;
      sent += static_cast<std::size_t>(bytes);
    }
  }
  // Whether the server has not hung up yet.
  bool takes(const std::string& text) {
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0 && send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
  }
  void say_no_more() { shutdown(socket_, SHUT_WR); }
  // Until the server hangs up, at most so much.
  std::string read_all(std::size_t most = 1 << 20) {
    std::string text;
    char piece[4096];
    while (text.size() < most) {
      const ssize_t bytes = recv(socket_, piece, sizeof piece, 0);
      if (bytes <= 0) break;
      text.append(piece, static_cast<std::size_t>(bytes));
    }
    return text;
  }
  // Reads on as it comes, until `wanted` is there; false: the server hung up before.
  bool reads(const std::string& wanted) {
    while (heard_.find(wanted) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  bool reads_the_end() {
    while (read_some()) {}
    return is_over_;
  }
  const std::string& heard() const { return heard_; }
  // Of the answer; 0 without.
  int status() {
    const std::string answer = read_all();
    return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
  }

 private:
  bool read_some() {
    char piece[4096];
    const ssize_t bytes = recv(socket_, piece, sizeof piece, 0);
    is_over_ = bytes == 0;
    if (bytes > 0) heard_.append(piece, static_cast<std::size_t>(bytes));
    return bytes > 0;
  }

  const int socket_;
  std::string heard_;
  bool is_over_ = false;
};

}  // namespace troupe::test
