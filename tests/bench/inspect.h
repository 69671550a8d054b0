// What it costs to be looked into, and how long a look takes.
//
// Threads: one, and the process may have no other (forked.h). Errors: those of the parts; kNotFound: no build without probes (tools/dev/build noprobes), no
// deadlock program. Limits: GPT-2 124M twice, two processes each, takes up to 15 GiB and several minutes.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/bench/paced_job.h"
#include "tests/bench/row.h"

namespace troupe::bench {

inline const std::vector<std::string> kInspectRows{"messages", "train", "trace", "actors", "deadlock", "memory"};

struct InspectOptions {
  PacedOptions job{.batch = 2, .threads = 1, .micro_batches = 4, .replicas = 2};
  int pairs = 9;
  int actors = 10'000;
  std::vector<std::string> rows = kInspectRows;
  std::string program = "/proc/self/exe";
  std::string without_probes;  // another build of it; empty: ../noprobes/troupe beside this one's folder
  std::string deadlock;        // empty: examples/deadlock beside this one
};

// inspect.messages.one, .many; inspect.train; inspect.trace; inspect.actors; inspect.deadlock; inspect.probe_bytes, with what belongs to each.
StatusOr<std::vector<BenchRow>> bench_inspect(const InspectOptions& options);

}  // namespace troupe::bench
