// The least that two processes of one machine can do for a collective: each reads the other's memory (process_vm_readv), chunk by chunk,
// and folds. No protocol, no queue, no failure, two ranks only: what the engine's collectives are held against.
//
// Threads: one in each process. Owns: a chunk of scratch; `vector` and the board are the caller's.
// Errors: fatal: a peer that does not come for half a minute, a read that the kernel refuses although allowed() said otherwise.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "comm/collective/collective.h"

namespace troupe::bench {

// Memory that both processes map. Counters only grow.
struct CopyBoard {
  struct alignas(128) Side {
    std::atomic<pid_t> pid{0};
    std::atomic<std::uint64_t> address{0};  // of its vector
    std::atomic<std::int64_t> asked{0};     // 1: it may read the other's memory, 2: it may not
    std::atomic<std::int64_t> entered{0};   // operations that it has begun
    std::atomic<std::int64_t> folded{0};    // chunks, over all operations
    std::atomic<std::int64_t> left{0};      // operations in which it reads nothing any more
    std::atomic<double> seconds{0};         // of its last run
  };
  std::array<Side, 2> sides;
  static CopyBoard* map();  // shared with children that are forked later; null if there is no memory
};

class CopyPeer {
 public:
  CopyPeer(CopyBoard& board, int self, std::byte* vector);

  // Whether the kernel lets both read the other's memory; both sides ask, and hear the same.
  bool allowed();

  // Both sides call it with the same arguments. Seconds of one of `count` in a row over `elements` of fp32, on the slower side, with the
  // chunk size that was fastest when this kind and size were asked for first. all-reduce, reduce-scatter, all-gather, in place.
  double run(comm::CollectiveKind kind, std::int64_t elements, std::int64_t count);

 private:
  std::int64_t best_chunk(comm::CollectiveKind kind, std::int64_t elements, std::int64_t count);
  double timed(comm::CollectiveKind kind, std::int64_t elements, std::int64_t count, std::int64_t chunk);
  void once(comm::CollectiveKind kind, std::int64_t elements, std::int64_t chunk);
  void read(std::byte* into, std::int64_t first, std::int64_t elements);  // the other's elements, from `first` on

  CopyBoard::Side& mine_;
  CopyBoard::Side& other_;
  const int self_;
  std::byte* const vector_;
  std::vector<float> scratch_;
  std::int64_t operations_ = 0;
  std::map<std::pair<comm::CollectiveKind, std::int64_t>, std::int64_t> chunks_;
};

}  // namespace troupe::bench
