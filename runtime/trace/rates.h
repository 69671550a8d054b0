// How fast counts of snapshots change: worked out by whoever takes the snapshots, so that what is counted pays nothing.
//
// A rate is over the time since the last look that is at least kWindowNs ago, since the start where there was none. Looks that come more often share
// what they compare with, so however many look, each rate is over at least that long (Rates.LookersDoNotDisturbEachOther).
// Threads: any; one lock, which only those who look take. Limits: keeps two looks at actors and two at edges.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/trace/snapshot.h"

namespace troupe::trace {

class Rates {
 public:
  static constexpr std::int64_t kWindowNs = 1'000'000'000;

  explicit Rates(std::int64_t start_ns);
  // Sets growth_per_s. `ids`: of the actors, in their order, ascending, never used again.
  void set(std::vector<ActorRow>& actors, const std::vector<std::uint64_t>& ids, std::int64_t at_ns);
  // Sets bytes_per_s. Edges are known by their place.
  void set(std::vector<EdgeRow>& edges, std::int64_t at_ns);

 private:
  struct Look {
    std::int64_t at_ns = 0;
    std::vector<std::uint64_t> ids{};    // ascending
    std::vector<std::int64_t> counts{};
  };
  struct Looks {
    Look before, last;  // at least kWindowNs apart
    // Of what is counted now the change a second.
    std::vector<double> changes(Look now);
  };
  std::mutex mutex_;  // guards what follows
  Looks depths_, bytes_;
};

}  // namespace troupe::trace
