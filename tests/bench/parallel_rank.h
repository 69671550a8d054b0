// One rank of a measured training job: a process of its own, which does what the packets on a socket say.
//
// Out: this rank's address, as the transport has it ("-" where it is alone). In: all ranks' addresses, by rank. Out: {"ready": true}.
// Then in, out: "step" (rank 0): a step of the whole job (where there are other ranks two, and the second counts), {"step_ns", "tokens",
// "data_wait_ns"}; "facts": RankFacts as JSON; "end": ends well, together with the other ranks, without an answer. Whatever fails:
// {"error": ..., "code": ...}, and the process ends. Threads: the caller's, the job's, one that waits for how the job ends.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/bench/paced_job.h"

namespace troupe::bench {

// Where a rank runs; what is empty is as in the process it is forked from.
struct RankPlace {
  int core = -1;                  // the only one it may use
  std::string network_namespace;  // by its name under /var/run/netns
  std::vector<std::pair<std::string, std::string>> environment;
};

void run_parallel_rank(int socket, int rank, const PacedOptions& job, const RankPlace& place);

}  // namespace troupe::bench
