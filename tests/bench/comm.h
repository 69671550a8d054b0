// What the link between two processes of this machine does: latency, bandwidth, collectives, heartbeats under load, in turns with
// ucx_perftest and Open MPI where those are installed, and with bare copies (comm_copies.h).
//
// Threads: one, and the process may have no other (comm_pair.h). Errors: those of the pair; a peer that is missing or fails is no
// error: its row says so, and stderr why, once.
// Limits: about a minute and 0.5 GiB on two cores that are idle.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/bench/row.h"

namespace troupe::bench {

struct CommOptions {
  int pairs = 7;       // interleaved repetitions, >= 7
  bool quick = false;  // fewer messages a repetition
  std::string only{};  // rows whose names contain it; all where empty
  std::string mpi_source = "tests/bench/peers/mpi_collectives.c";
};
// comm.latency.polling, comm.latency.armed, the same .actors; comm.bandwidth.64MiB.LINK, the same .actors, comm.KIND.SIZE, the same
// .over_copies and .4_ranks: ratios, each with .gb_per_s and .spread; comm.heartbeat.p99 and comm.heartbeat.p99.tcp.
StatusOr<std::vector<BenchRow>> bench_comm(const CommOptions& options);

}  // namespace troupe::bench
