#include "tests/sim/fault.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace troupe::test {

Fault Fault::draw(FaultKind kind, Draws& draws, int world, std::int64_t within_ns, std::int64_t timeout_ns) {
  Fault fault{.kind = kind, .at_ns = draws.below(within_ns), .victim = draws.rank(world)};
  do {
    fault.other = draws.rank(world);
  } while (fault.other == fault.victim);
  fault.side = {fault.victim};
  for (int rank = 0; rank < world; ++rank) {
    const Rank more(rank);
    if (more != fault.victim && more != fault.other && draws.one_in(2)) fault.side.push_back(more);
  }
  // Short of the timeout, or so long that all others have given up.
  fault.lasts_ns = kind == FaultKind::kLongPause ? 2 * timeout_ns + draws.below(timeout_ns) : draws.below(timeout_ns * 9 / 10);
  return fault;
}

void Fault::schedule(comm::SimNetwork& network) const {
  network.at(at_ns, [this, &network] {
    switch (kind) {
      case FaultKind::kNone: return;
      case FaultKind::kSlowPeer: return network.slow(victim, kSlowTimes);
      case FaultKind::kShortPause:
      case FaultKind::kLongPause: return network.pause(victim);
      case FaultKind::kShortCut:
      case FaultKind::kCut: return network.cut(victim, other);
      case FaultKind::kCrash: return network.crash(victim);
      case FaultKind::kPartition: return network.part(side);
    }
  });
  network.at(at_ns + lasts_ns, [this, &network] {
    if (kind == FaultKind::kShortPause || kind == FaultKind::kLongPause) network.resume(victim);
    if (kind == FaultKind::kShortCut) network.mend(victim, other);
  });
}

bool Fault::divides(Rank a, Rank b) const {
  const auto on_side = [this](Rank rank) { return std::find(side.begin(), side.end(), rank) != side.end(); };
  switch (kind) {
    case FaultKind::kCrash: return a == victim || b == victim;
    case FaultKind::kLongPause: return a != b && (a == victim || b == victim);
    case FaultKind::kCut: return (a == victim && b == other) || (a == other && b == victim);
    case FaultKind::kPartition: return on_side(a) != on_side(b);
    default: return false;
  }
}

bool Fault::explains(Rank rank, Rank lost) const {
  switch (kind) {
    case FaultKind::kCrash: return lost == victim;
    case FaultKind::kLongPause: return lost == victim || rank == victim;  // to one that was paused all others are gone
    case FaultKind::kCut: return lost == victim || lost == other;
    case FaultKind::kPartition: return divides(rank, lost);
    default: return false;
  }
}

std::int64_t Fault::heard_by_ns(const comm::SimNetwork& network) const {
  // One that was paused hears the others' silence once it runs again.
  return at_ns + (kind == FaultKind::kLongPause ? lasts_ns : 0) + network.silence_ns_most();
}

std::string Fault::describe() const {
  const auto text = [&]() -> std::string {
    switch (kind) {
      case FaultKind::kNone: return "no fault";
      case FaultKind::kSlowPeer: return absl::StrCat("rank ", victim.value, " slow");
      case FaultKind::kShortPause: return absl::StrCat("rank ", victim.value, " paused shortly");
      case FaultKind::kLongPause: return absl::StrCat("rank ", victim.value, " paused for long");
      case FaultKind::kShortCut: return absl::StrCat("link ", victim.value, "-", other.value, " cut and mended");
      case FaultKind::kCut: return absl::StrCat("link ", victim.value, "-", other.value, " cut");
      case FaultKind::kCrash: return absl::StrCat("rank ", victim.value, " crashes");
      case FaultKind::kPartition: break;
    }
    std::string ranks;
    for (const Rank rank : side) absl::StrAppend(&ranks, " ", rank.value);
    return absl::StrCat("parted from the others:", ranks);
  };
  return absl::StrCat(text(), " at ", at_ns, " ns");
}

bool run(VirtualClock& clock, comm::SimNetwork& network) {
  for (int events = 0; events < 1'000'000; ++events) {
    const std::int64_t next_ns = network.ready_at_ns();
    if (next_ns == device::SimRunnable::kNever) return true;
    if (next_ns > clock.now_ns()) clock.advance(next_ns - clock.now_ns());
    network.step();
  }
  return false;
}

}  // namespace troupe::test
