// Ranks in processes of their own, two unless more are asked for, which measure the link between them when told to (comm_rank.h).
//
// Threads, errors: as ForkedRanks. Owns: the processes, which end with it, also when it is killed.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "tests/bench/comm_rank.h"
#include "tests/bench/forked.h"

namespace troupe::bench {

class CommPair {
 public:
  static StatusOr<std::unique_ptr<CommPair>> open(const LinkOptions& options);

  ~CommPair();
  CommPair(const CommPair&) = delete;
  CommPair& operator=(const CommPair&) = delete;

  // Blocks. The largest of the ranks' answers, in seconds.
  StatusOr<double> measure(const Order& order);

 private:
  CommPair() = default;
  Status set_up(const LinkOptions& options);

  CopyBoard* board_ = nullptr;
  ForkedRanks ranks_;
};

}  // namespace troupe::bench
