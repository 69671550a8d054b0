// One of two ranks that measure what goes from an actor to one in another process: messages through links, tensors along far edges.
//
// Threads: the caller's, the actors', the transport's. Clocks and errors: as comm_rank.h.
#pragma once

#include "tests/bench/comm_rank.h"

namespace troupe::bench {

// As run_comm_rank.
void run_actor_rank(int socket, int rank, const LinkOptions& options);

}  // namespace troupe::bench
