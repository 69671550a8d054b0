#include "tests/bench/forked.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::bench {
namespace {

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

}  // namespace

StatusOr<ForkedRanks> ForkedRanks::fork(int count, const std::function<void(int socket, int rank)>& body) {
  if (threads_of_this_process() > 1) {
    return absl::FailedPreconditionError(
        "ranks are forked from a process without threads, and this one has some: measure them in a process of their own");
  }
  std::vector<std::array<int, 2>> sockets(static_cast<std::size_t>(count));
  ForkedRanks made;
  for (auto& ends : sockets) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return absl::UnavailableError("no socket for a rank");
    made.ranks_.push_back({.socket = ends[0]});
  }
  std::fflush(nullptr);  // or each rank prints it again
  const pid_t parent = getpid();
  for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) return absl::UnavailableError("a rank could not be forked");
    made.ranks_[rank].pid = pid;
    if (pid > 0) {
      close(sockets[rank][1]);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (std::size_t other = 0; other < sockets.size(); ++other) {
      close(sockets[other][0]);
      if (other > rank) close(sockets[other][1]);
    }
    body(sockets[rank][1], static_cast<int>(rank));
    _exit(0);
  }
  return made;
}

ForkedRanks::~ForkedRanks() {
  for (const auto& rank : ranks_) {
    if (rank.socket >= 0) close(rank.socket);
  }
  const auto due = std::chrono::steady_clock::now() + kEndPatience;
  for (const auto& rank : ranks_) {
    if (rank.pid <= 0) continue;
    while (waitpid(rank.pid, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() < due) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
      break;
    }
  }
}

Status ForkedRanks::send(int rank, std::string_view packet) {
  const auto& to = ranks_[static_cast<std::size_t>(rank)];
  if (::send(to.socket, packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size())) return ok();
  return absl::UnavailableError(absl::StrCat("rank ", rank, " of the measurement ended"));
}

StatusOr<std::string> ForkedRanks::receive(int rank) {
  std::vector<pollfd> sockets;
  for (int other = 0; other < count(); ++other) {
    // Of the others only their end is of interest: this one may wait for them for ever.
    sockets.push_back({ranks_[static_cast<std::size_t>(other)].socket, static_cast<short>(other == rank ? POLLIN : 0), 0});
  }
  const auto due = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - std::chrono::steady_clock::now());
    const int polled = poll(sockets.data(), sockets.size(), static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0)
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank, " of the measurement said nothing for ", kPatience.count(), " s"));
    break;
  }
  int who = rank;
  if (!sockets[static_cast<std::size_t>(rank)].revents) {
    while (who == rank || !sockets[static_cast<std::size_t>(who)].revents) who = (who + 1) % count();
  }
  std::string packet = next_packet(sockets[static_cast<std::size_t>(who)].fd);
  if (who == rank && !packet.empty()) return packet;
  return absl::UnavailableError(absl::StrCat("rank ", who, " of the measurement ended", packet.empty() ? "" : ": ", packet));
}

std::string next_packet(int socket) {
  std::string packet(65536, '\0');
  ssize_t bytes = 0;
  while ((bytes = recv(socket, packet.data(), packet.size(), 0)) < 0 && errno == EINTR) {
  }
  packet.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  return packet;
}

void send_packet(int socket, std::string_view packet) {
  TROUPE_CHECK(send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size())) << "who asked is gone";
}

}  // namespace troupe::bench
