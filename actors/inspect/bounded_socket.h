// A connection from which a request is read and to which an answer is written, whoever is at its other end: one who sends without end, a byte
// a second, or reads nothing keeps no thread for long.
//
// Threads: one. Owns: the socket. Errors: -1, as of a socket that is broken; 0 at the end of what is sent.
// Limits: below. Invariant: InspectFuzz.WhoeverComesTheNextGoodRequestIsAnswered.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace troupe::actors {

class BoundedSocket {
 public:
  static constexpr auto kSilence = std::chrono::seconds(1);        // between two bytes
  static constexpr auto kRequestWithin = std::chrono::seconds(3);  // all of it
  static constexpr std::size_t kRequestBytesMost = 64 << 10;
  static constexpr std::size_t kAnswerBytesPerS = 1 << 20;  // that are read at least, after kRequestWithin
  static constexpr std::size_t kLeftoverBytesMost = 1 << 20;  // of a body that nobody wanted, read so that the answer arrives

  // Nothing more is written once `ending`.
  BoundedSocket(int socket, const std::atomic<bool>& ending) : socket_(socket), ending_(ending) {}
  ~BoundedSocket();
  BoundedSocket(const BoundedSocket&) = delete;
  BoundedSocket& operator=(const BoundedSocket&) = delete;

  ssize_t read(char* to, std::size_t most);
  bool is_readable();
  ssize_t write(const char* from, std::size_t bytes);
  // The other end can be written to, and has not gone.
  bool is_there() const;
  int socket() const { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_ready(short what, Clock::duration within) const;
  bool fill();

  const int socket_;
  const std::atomic<bool>& ending_;
  const Clock::time_point begun_ = Clock::now();
  std::size_t read_ = 0;
  std::array<char, 4096> buffer_{};
  std::size_t at_ = 0, end_ = 0;
  bool is_over_ = false;
};

}  // namespace troupe::actors
