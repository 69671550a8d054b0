// Two ranks in processes of their own, asked from here to measure the link between them (comm_rank.h).
//
// The ranks are forked: this process must have no other thread and no UCX state, and gets none.
// Threads: one. Owns: both processes, which end with it, also when it is killed.
// Errors: kFailedPrecondition when this process has threads, kUnavailable when a rank has ended (it said why on stderr).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/base/status.h"
#include "tests/bench/comm_rank.h"

namespace troupe::bench {

class CommPair {
 public:
  static StatusOr<std::unique_ptr<CommPair>> open(const LinkOptions& options);
  ~CommPair();
  CommPair(const CommPair&) = delete;
  CommPair& operator=(const CommPair&) = delete;

  // Blocks. The larger of both ranks' answers, in seconds.
  StatusOr<double> measure(const Order& order);

 private:
  struct Process {
    pid_t pid = -1;
    int socket = -1;
  };
  CommPair() = default;
  Status set_up(const LinkOptions& options);

  std::array<Process, 2> ranks_;
  CopyBoard* board_ = nullptr;
};

}  // namespace troupe::bench
