// What befalls a simulated network in one run, drawn from a seed; and the run itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/sim/sim_network.h"
#include "runtime/base/clock.h"
#include "runtime/base/rng.h"

namespace troupe::test {

// Numbers of one purpose, one after the other.
class Draws {
 public:
  explicit Draws(std::uint64_t seed, std::int32_t use = 0) : random_(RandomKey{.seed = seed, .use = use}) {}
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(random_.at(next_++)) % limit; }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  Rank rank(int world) { return Rank(static_cast<std::int32_t>(below(world))); }

 private:
  RandomStream random_;
  std::uint64_t next_ = 0;
};

// The first four change nothing but times.
enum class FaultKind { kNone, kSlowPeer, kShortPause, kShortCut, kCrash, kCut, kPartition, kLongPause };
inline constexpr int kFaultKinds = 8;
inline constexpr int kSlowTimes = 50;  // as long as others' take the packets of a slow peer

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::int64_t at_ns = 0;
  Rank victim, other;          // `other` of a cut
  std::vector<Rank> side;      // of a partition
  std::int64_t lasts_ns = 0;   // of what ends again

  // Of a kind given, within the first `within_ns`. Worlds of two and more.
  static Fault draw(FaultKind kind, Draws& draws, int world, std::int64_t within_ns, std::int64_t timeout_ns);
  void schedule(comm::SimNetwork& network) const;
  bool harmless() const { return kind <= FaultKind::kShortCut; }
  // The two can no longer reach each other, for ever.
  bool divides(Rank a, Rank b) const;
  // A rank that lives may lay its end to `lost`: what it heard of first is the fault, by itself or through one whose end came of it.
  bool explains(Rank rank, Rank lost) const;
  // By when every rank that runs has heard of it; without what follows.
  std::int64_t heard_by_ns(const comm::SimNetwork& network) const;
  std::string describe() const;
};

// Until nothing can happen, or a million events have passed.
bool run(VirtualClock& clock, comm::SimNetwork& network);

}  // namespace troupe::test
