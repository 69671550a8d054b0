#include "actors/inspect/bounded_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::actors {

namespace {

constexpr auto kLeftoverWithin = std::chrono::milliseconds(200);
constexpr auto kSlice = std::chrono::milliseconds(200);  // then it looks whether the server ends

}  // namespace

// Closed with something unread, a TCP socket takes back what was not read at the other end yet.
BoundedSocket::~BoundedSocket() {
  shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + kLeftoverWithin;
  std::size_t left = kLeftoverBytesMost;
  while (!is_over_ && left > 0 && Clock::now() < until && is_ready(POLLIN, until - Clock::now())) {
    const ssize_t bytes = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (bytes <= 0) break;
    left -= std::min(left, static_cast<std::size_t>(bytes));
  }
  close(socket_);
}

bool BoundedSocket::is_ready(short what, Clock::duration within) const {
  pollfd ready{.fd = socket_, .events = what, .revents = 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(within, Clock::duration::zero())).count();
  int count = 0;
  do {
    count = poll(&ready, 1, static_cast<int>(ms));
  } while (count < 0 && errno == EINTR);
  return count > 0 && (ready.revents & (what | POLLHUP)) != 0;
}

bool BoundedSocket::is_readable() { return at_ < end_ || is_ready(POLLIN, std::min<Clock::duration>(kSilence, begun_ + kRequestWithin - Clock::now())); }

bool BoundedSocket::fill() {
  if (read_ >= kRequestBytesMost || Clock::now() - begun_ >= kRequestWithin || !is_readable()) return false;
  const ssize_t bytes = recv(socket_, buffer_.data(), std::min(buffer_.size(), kRequestBytesMost - read_), MSG_DONTWAIT);
  if (bytes < 0) return false;
  is_over_ = bytes == 0;
  at_ = 0;
  end_ = static_cast<std::size_t>(bytes);
  read_ += end_;
  return true;
}

ssize_t BoundedSocket::read(char* to, std::size_t most) {
  if (at_ == end_ && (is_over_ || !fill())) return is_over_ ? 0 : -1;
  const std::size_t bytes = std::min(most, end_ - at_);
  std::memcpy(to, buffer_.data() + at_, bytes);
  at_ += bytes;
  return static_cast<ssize_t>(bytes);
}

ssize_t BoundedSocket::write(const char* from, std::size_t bytes) {
  const auto until = Clock::now() + kRequestWithin + std::chrono::seconds(bytes / kAnswerBytesPerS);
  std::size_t written = 0;
  auto moved = Clock::now();
  while (written < bytes) {
    const auto left = until - Clock::now();
    if (left <= Clock::duration::zero() || ending_) return -1;
    if (!is_ready(POLLOUT, std::min<Clock::duration>(left, kSlice))) {
      if (Clock::now() - moved < kRequestWithin) continue;
      return -1;
    }
    const ssize_t some = send(socket_, from + written, bytes - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (some < 0 && errno != EAGAIN && errno != EINTR) return -1;
    if (some > 0) {
      written += static_cast<std::size_t>(some);
      moved = Clock::now();
    }
  }
  return static_cast<ssize_t>(written);
}

bool BoundedSocket::is_there() const {
  char byte = 0;
  const ssize_t bytes = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool has_gone = bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR);
  return !has_gone && is_ready(POLLOUT, kSilence);
}

}  // namespace troupe::actors
