#include "tests/bench/comm_pair.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace troupe::bench {
namespace {

StatusOr<std::string> receive(int socket, std::size_t rank) {
  std::string packet(65536, '\0');
  const ssize_t bytes = recv(socket, packet.data(), packet.size(), 0);
  if (bytes <= 0) return absl::UnavailableError(absl::StrCat("rank ", rank, " of the measured link ended"));
  packet.resize(static_cast<std::size_t>(bytes));
  return packet;
}

Status transmit(int socket, std::size_t rank, const void* packet, std::size_t bytes) {
  if (send(socket, packet, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes)) return ok();
  return absl::UnavailableError(absl::StrCat("rank ", rank, " of the measured link ended"));
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

}  // namespace

StatusOr<std::unique_ptr<CommPair>> CommPair::open(const LinkOptions& options) {
  if (threads_of_this_process() > 1) {
    return absl::FailedPreconditionError("two ranks are forked from a process without threads, and this one has some: measure links in a process of their own");
  }
  std::unique_ptr<CommPair> pair(new CommPair);
  TROUPE_RETURN_IF_ERROR(pair->set_up(options));
  return pair;
}

Status CommPair::set_up(const LinkOptions& options) {
  std::array<std::array<int, 2>, 2> sockets{};
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets[i].data()) != 0) return absl::UnavailableError("no socket for a rank");
    ranks_[i].socket = sockets[i][0];
  }
  board_ = CopyBoard::map();
  if (board_ == nullptr) return absl::UnavailableError("no memory that two ranks share");
  std::fflush(nullptr);  // or each rank prints it again
  const pid_t parent = getpid();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].pid = fork();
    if (ranks_[i].pid != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (std::size_t other = 0; other < sockets.size(); ++other) {
      close(sockets[other][0]);
      if (other != i) close(sockets[other][1]);
    }
    run_comm_rank(sockets[i][1], static_cast<int>(i), options, *board_);
    _exit(0);
  }
  for (const auto& socket : sockets) close(socket[1]);
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].pid < 0) return absl::UnavailableError("a rank could not be forked");
    TROUPE_ASSIGN_OR_RETURN(addresses.emplace_back(), receive(ranks_[i].socket, i));
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    for (const auto& address : addresses) TROUPE_RETURN_IF_ERROR(transmit(ranks_[i].socket, i, address.data(), address.size()));
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    TROUPE_RETURN_IF_ERROR(receive(ranks_[i].socket, i).status());
  }
  return ok();
}

CommPair::~CommPair() {
  for (const auto& rank : ranks_) {
    if (rank.socket >= 0) close(rank.socket);
  }
  for (const auto& rank : ranks_) {
    if (rank.pid > 0) waitpid(rank.pid, nullptr, 0);
  }
  if (board_ != nullptr) munmap(board_, sizeof *board_);
}

StatusOr<double> CommPair::measure(const Order& order) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) TROUPE_RETURN_IF_ERROR(transmit(ranks_[i].socket, i, &order, sizeof order));
  std::array<double, 2> answers{};
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    TROUPE_ASSIGN_OR_RETURN(const std::string packet, receive(ranks_[i].socket, i));
    if (packet.size() != sizeof(double)) return absl::UnavailableError(absl::StrCat("rank ", i, " of the measured link gave no number"));
    std::copy(packet.begin(), packet.end(), reinterpret_cast<char*>(&answers[i]));
  }
  return std::max(answers[0], answers[1]);
}

}  // namespace troupe::bench
