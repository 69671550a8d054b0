// One of two ranks that measure the link between them, or of more that measure collectives: a process of its own, which does what the
// orders on a socket say.
//
// Threads: the caller's and the transport's. Clocks of two processes of one machine are the same (CLOCK_MONOTONIC): a frame that
// carries its time says how long it took one way.
// Memory: bulks and vectors lie in a device pool (huge pages), as those of a training job do: copies between processes go by pages.
// Limits: kLinkBytesMost a bulk or vector.
// Errors: an error of the link is fatal to the process, which says why on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "comm/collective/collective.h"
#include "tests/bench/comm_copies.h"

namespace troupe::bench {

struct LinkOptions {
  int ranks = 2;
  bool actors = false;     // what is measured goes from actor to actor (comm_actors.h)
  std::string transports;  // UCX_TLS
  // How long the progress threads look for more before they sleep. Long enough and they poll; yet they must sleep while the peer is
  // measured.
  std::chrono::microseconds spin = std::chrono::milliseconds(5);
};

enum class Measurement : std::uint8_t {
  kPing,        // rank 0 answers: seconds one way, half of there and back, median of `count`
  kWake,        // rank 1: seconds one way between sleepers, median of `count`
  kBulk,        // rank 0: seconds for `count` bulks of `bytes`, kBulksOpen under way at a time, until all are fetched
  kHeartbeat,   // rank 1: seconds one way, p99 of control frames that left while `count` bulks of `bytes` went the same way
  kCollective,  // both: seconds of one of `count` collectives of `kind` over `bytes` of fp32
  kActorWake,   // rank 1 of actors: as kWake, from handler to handler
  kActorBulk,   // rank 0 of actors: as kBulk, along an edge
  kCopies,      // both: the same by bare copies (comm_copies.h) in the same memory; -1 where the kernel does not allow them
};
inline constexpr int kBulksOpen = 4;
inline constexpr std::int64_t kLinkBytesMost = std::int64_t{64} << 20;

struct Order {
  Measurement what = Measurement::kPing;
  comm::CollectiveKind kind = comm::CollectiveKind::kBarrier;
  std::int64_t bytes = 0, count = 0;
};

// `board`: mapped by all. Packets on `socket`: our address out, all addresses in, 0 out (a double: ready); then an Order in, a double
// out, until it is closed.
void run_comm_rank(int socket, int rank, const LinkOptions& options, CopyBoard& board);

}  // namespace troupe::bench
