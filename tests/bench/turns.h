// Measuring in turns with a peer, and the rows that come of it: every ratio is the median of pairs, a pair against itself beside it.
//
// Threads: one. Errors: those of what is measured; a peer that fails is lost, no error: its rows say so, and stderr why, once.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/bench/row.h"

namespace troupe::bench {

using Seconds = std::function<StatusOr<double>()>;

// Whom ours is measured in turns with; if `missing` is not ok, why not.
struct Peer {
  std::string name;
  Status missing;
  bool there() const { return missing.ok(); }
  void lose(const Status& why);
};

// Seconds of ours and of the peer's, in turns; without a peer `theirs` and `ratios` are empty.
struct Turns {
  std::vector<double> ours, theirs, ratios;
};

class TurnTaker {
 public:
  // `settle`: how long threads that poll take to fall asleep, before each turn. `pairs` of turns, after one for what only the first does:
  // connections, pages, code.
  TurnTaker(int pairs, std::chrono::microseconds settle) : pairs_(pairs), settle_(settle) {}

  StatusOr<std::vector<double>> repeat(const Seconds& ours) const;
  StatusOr<Turns> in_turns(const Seconds& ours, Peer& peer, const Seconds& theirs) const;

 private:
  const int pairs_;
  const std::chrono::microseconds settle_;
};

// What a definition says of its peer.
std::string peer_is(const Peer& peer, const char* what);
// Rows NAME, NAME.gb_per_s, NAME.spread. `bytes`: what moved in the seconds of `turns`.
void add_ratio(std::vector<BenchRow>& rows, const std::string& name, double bar, const Turns& turns, const Peer& peer, const char* what,
               double bytes, const std::string& definition);

}  // namespace troupe::bench
