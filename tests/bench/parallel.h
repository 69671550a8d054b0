// What data parallelism costs and gives on this machine: processes over UCX against one process, against PyTorch, over a slow link, with a
// slow replica; what a rank holds; how long a job of many processes takes to begin and end.
//
// Threads: one, and the process may have no other (forked.h). Errors: those of the ranks; what this machine or this build cannot do
// (no root for namespaces and quotas, a setting that the trainer refuses, no Python with torch) is no error: its row says so.
// Limits: GPT-2 124M takes up to 15 GiB and about a minute and a half a row; two cores.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/bench/paced_job.h"
#include "tests/bench/row.h"

namespace troupe::bench {

inline const std::vector<std::string> kParallelRows{"zero", "slow_link", "peers", "memory", "straggler", "join"};

struct ParallelOptions {
  PacedOptions job{.batch = 2, .threads = 1, .micro_batches = 4};  // the same work for all: a step's micro-batches are over all replicas
  int pairs = 7;
  std::vector<std::string> rows = kParallelRows;
  std::string peer_python;  // with torch
  std::string peer_script = "tests/bench/peers/pytorch_parallel.py";
  std::string program = "/proc/self/exe";  // the binary that is launched 64 times
  int processes = 64;
};

// parallel.zero-Z, parallel.slow_link, parallel.over_ddp, parallel.over_fsdp2, parallel.memory.zero-Z, parallel.straggler.BALANCE,
// parallel.join, with what belongs to each.
StatusOr<std::vector<BenchRow>> bench_parallel(const ParallelOptions& options);

}  // namespace troupe::bench
