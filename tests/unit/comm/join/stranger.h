// What the tests of the store and of its relays share: patience, and a connection that is no client.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/join/socket.h"
#include "comm/join/store.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {

inline constexpr std::chrono::seconds kPatience{60};
inline constexpr char kBuild[] = "1.0+abc";

inline bool wait_until(const std::function<bool()>& condition) {
  for (const Deadline end = after(kPatience); !condition(); std::this_thread::yield()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// A connection that is no client.
class Stranger {
 public:
  static Stranger taken(int fd) { return Stranger(Fd{fd}); }  // one that came to us
  explicit Stranger(int port) : Stranger("127.0.0.1", port) {}
  explicit Stranger(const std::string& name) : Stranger("@" + name, 0) {}
  Stranger(const std::string& host, int port) {
    const auto fd = connect_to(host, port, after(kPatience));
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    fd_ = fd.value_or(-1);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(fd_); }
  void say(std::string_view bytes) const { (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Proves that it knows the secret, and gives the answer's type.
  int prove(const std::string& hello, const std::string& secret = "secret") const {
    say(hello);
    const std::string challenge = hear_a_frame();
    FrameReader reader(challenge);
    reader.u16();
    const std::string nonce(reader.raw(kNonceBytes));
    say(std::move(FrameWriter(protocol::kProof).raw(protocol::client_proof(secret, std::string_view(hello).substr(4), nonce))).finish());
    return FrameReader(hear_a_frame()).type();
  }
  void hang_up() const { shutdown(fd_, SHUT_RDWR); }
  // What comes until it is closed, or nothing more comes.
  std::string hear_to_the_end() const {
    std::string heard;
    std::array<char, 4096> part;
    pollfd waited{fd_, POLLIN, 0};
    while (poll(&waited, 1, 60000) > 0) {
      const ssize_t count = recv(fd_, part.data(), part.size(), 0);
      if (count <= 0) return heard;
      heard.append(part.data(), static_cast<std::size_t>(count));
    }
    ADD_FAILURE() << "the store keeps a stranger";
    return heard;
  }
  std::string hear_a_frame() const {
    FrameSplitter splitter;
    std::array<char, 4096> part;
    while (true) {
      auto frame = splitter.next();
      if (frame.ok() && *frame) return **frame;
      if (!wait_for(fd_, POLLIN, after(kPatience))) return "";
      const ssize_t count = recv(fd_, part.data(), part.size(), 0);
      if (count <= 0) return "";
      splitter.append({part.data(), static_cast<std::size_t>(count)});
    }
  }
  static std::string hello(int version = protocol::kVersion, protocol::Role role = protocol::Role::kRank) {
    return std::move(FrameWriter(protocol::kHello)
                         .raw(protocol::kMagic)
                         .u16(static_cast<std::uint16_t>(version))
                         .raw(std::string(kNonceBytes, 'n'))
                         .u8(static_cast<std::uint8_t>(role))
                         .i32(0)
                         .i32(2)
                         .text(kBuild)
                         .text(role == protocol::Role::kRelay ? "far" : ""))
        .finish();
  }

 private:
  struct Fd {
    int value;
  };
  explicit Stranger(Fd fd) : fd_(fd.value) {}
  int fd_ = -1;
};

inline int type_of(const std::string& frame) { return FrameReader(frame).type(); }

}  // namespace troupe::comm
