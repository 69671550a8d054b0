// Who has been silent for too long. Time is passed in; the transport's timer calls tick() every
// interval_ns().
//
// Silence is counted only while this process runs itself: when its own tick comes late (it was stopped, or
// starved), every count starts again, since what the others sent meanwhile has not been read yet. Threads:
// one. Invariants: Pulse.* in pulse_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/ids.h"

namespace troupe::comm {

class Pulse {
 public:
  // first_contact_ns: how long a peer may take until it is heard for the first time; it may still be
  // starting.
  Pulse(int world, std::int64_t timeout_ns, std::int64_t first_contact_ns);

  std::int64_t interval_ns() const { return interval_ns_; }
  void start(std::int64_t now_ns) { ticked_ns_ = now_ns; }
  // Counts from now on, if it did not yet.
  void watch(Rank rank, std::int64_t now_ns);
  void heard(Rank rank, std::int64_t now_ns);
  void forget(Rank rank);
  // Those that are silent for too long.
  std::vector<Rank> tick(std::int64_t now_ns);

 private:
  struct Watched {
    bool watched = false, heard = false, forgotten = false;
    std::int64_t since_ns = 0;
  };
  Watched& at(Rank rank) { return watched_[static_cast<std::size_t>(rank.value)]; }

  const std::int64_t timeout_ns_, first_contact_ns_, interval_ns_;
  std::int64_t ticked_ns_ = 0;
  std::vector<Watched> watched_;
};

}  // namespace troupe::comm
