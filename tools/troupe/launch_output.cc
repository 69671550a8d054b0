#include "tools/troupe/launch_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace troupe::tool {
namespace {

constexpr std::size_t kTailLines = 20, kTailLineBytesMost = 4096;
constexpr std::size_t kPendingBytesMost = 1 << 20;  // more than that, and ranks wait

}  // namespace

void LineCutter::add(std::string_view bytes, absl::FunctionRef<void(std::string_view)> on_line) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto room = kLineBytesMost - begun_.size();
    if (end == std::string_view::npos && bytes.size() < room) {
      begun_.append(bytes);
      return;
    }
    const bool whole = end != std::string_view::npos && end <= room;
    const auto part = bytes.substr(0, whole ? end : room);
    if (begun_.empty()) on_line(part);
    else on_line(begun_.append(part));
    begun_.clear();
    bytes.remove_prefix(part.size() + (whole ? 1 : 0));
  }
}

void LineCutter::end(absl::FunctionRef<void(std::string_view)> on_line) {
  if (!begun_.empty()) on_line(begun_);
  begun_.clear();
}

void Tail::add(std::string_view line) {
  lines_.emplace_back(line.substr(0, kTailLineBytesMost));
  if (lines_.size() > kTailLines) lines_.pop_front();
}

void Output::write(std::string_view bytes) {
  if (broken_) return;
  pending_.append(bytes);
  flush();
}

void Output::line(std::string_view prefix, std::string_view text) {
  if (broken_) return;
  pending_.append(prefix).append(text).push_back('\n');
  flush();
}

bool Output::has_room() const { return pending_.size() - written_ < kPendingBytesMost; }

void Output::flush() {
  while (written_ < pending_.size()) {
    // Not set to O_NONBLOCK, which would hold for everybody who shares it; a pipe that can be written takes PIPE_BUF.
    pollfd out{fd_, POLLOUT, 0};
    if (poll(&out, 1, 0) <= 0) return;
    const ssize_t count = ::write(fd_, pending_.data() + written_, std::min<std::size_t>(pending_.size() - written_, PIPE_BUF));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) {
      broken_ = true;
      break;
    }
    written_ += static_cast<std::size_t>(count);
  }
  pending_.clear();
  written_ = 0;
}

void Output::flush_within(int timeout_ms) {
  for (flush(); pending(); flush()) {
    pollfd out{fd_, POLLOUT, 0};
    if (poll(&out, 1, timeout_ms) <= 0) return;
  }
}

}  // namespace troupe::tool
