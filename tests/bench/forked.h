// Ranks of a measurement: processes forked from this one, each with a socket of packets to it.
//
// Threads: one, and the process may have no other: what is forked has only the one that forks, and no state of UCX or oneDNN.
// Owns: the processes, which are killed when this one dies; its destructor closes the sockets, waits kPatience for the rest, then kills.
// Errors: kFailedPrecondition when this process has threads; kUnavailable when a rank has ended (it said why on stderr), kDeadlineExceeded
// when it says nothing for kPatience.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::bench {

class ForkedRanks {
 public:
  static constexpr std::chrono::seconds kPatience{600}, kEndPatience{20};

  // `body` runs in each new process, which ends with it.
  static StatusOr<ForkedRanks> fork(int count, const std::function<void(int socket, int rank)>& body);
  ForkedRanks(ForkedRanks&& other) noexcept : ranks_(std::exchange(other.ranks_, {})) {}
  ForkedRanks& operator=(ForkedRanks&& other) noexcept {
    std::swap(ranks_, other.ranks_);
    return *this;
  }
  ForkedRanks() = default;
  ~ForkedRanks();

  int count() const { return static_cast<int>(ranks_.size()); }
  pid_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
  Status send(int rank, std::string_view packet);
  StatusOr<std::string> receive(int rank);

 private:
  struct Process {
    pid_t pid = -1;
    int socket = -1;
  };
  std::vector<Process> ranks_;
};

// For a rank: the next packet on its socket; empty when who asked is gone.
std::string next_packet(int socket);
void send_packet(int socket, std::string_view packet);

}  // namespace troupe::bench
