#include "tests/bench/turns.h"

#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/bench/pairs.h"

namespace troupe::bench {
namespace {

double gb_per_s(double bytes, const std::vector<double>& seconds) { return seconds.empty() ? 0 : bytes * 1e-9 / median(seconds); }

}  // namespace

void Peer::lose(const Status& why) {
  missing = why;
  std::fprintf(stderr, "bench: %s is not measured: %s\n", name.c_str(), std::string(why.message()).c_str());
}

StatusOr<std::vector<double>> TurnTaker::repeat(const Seconds& ours) const {
  std::vector<double> all;
  for (int i = -1; i < pairs_; ++i) {
    std::this_thread::sleep_for(settle_);
    TROUPE_ASSIGN_OR_RETURN(const double one, ours());
    if (i >= 0) all.push_back(one);
  }
  return all;
}

StatusOr<Turns> TurnTaker::in_turns(const Seconds& ours, Peer& peer, const Seconds& theirs) const {
  Turns turns;
  for (int i = -1; i < pairs_; ++i) {
    double mine = 0, other = 0;
    // Who goes first alternates, so that a drift of the machine falls on both.
    for (const bool our_turn : {i % 2 == 0, i % 2 != 0}) {
      std::this_thread::sleep_for(settle_);
      if (our_turn) {
        TROUPE_ASSIGN_OR_RETURN(mine, ours());
      } else if (peer.there()) {
        const auto measured = theirs();
        if (measured.ok()) other = *measured;
        if (!measured.ok()) peer.lose(measured.status());
      }
    }
    if (i < 0) continue;
    turns.ours.push_back(mine);
    if (!peer.there()) continue;
    turns.theirs.push_back(other);
    turns.ratios.push_back(other / mine);
  }
  if (!peer.there()) turns.theirs = turns.ratios = {};
  return turns;
}

std::string peer_is(const Peer& peer, const char* what) {
  if (!peer.there()) return absl::StrCat("without a peer, for ", peer.missing.message());
  return absl::StrCat("peer: ", peer.name, ", ", what, ", in turns with ours");
}

void add_ratio(std::vector<BenchRow>& rows, const std::string& name, double bar, const Turns& turns, const Peer& peer, const char* what,
               double bytes, const std::string& definition) {
  const bool compared = peer.there();
  const std::string whole = absl::StrCat(definition, "; ", compared ? "median of pairs; " : "", peer_is(peer, what));
  rows.push_back({name, compared ? median(turns.ratios) : 0, "ratio", compared ? bar : 0, gb_per_s(bytes, turns.theirs),
                  absl::StrCat(compared ? "rate over the peer's: " : "no ratio: ", whole)});
  rows.push_back({name + ".gb_per_s", gb_per_s(bytes, turns.ours), "GB/s", 0, gb_per_s(bytes, turns.theirs), whole});
  rows.push_back({name + ".spread", spread_against_itself(compared ? turns.theirs : turns.ours), "ratio", 0, 0,
                  absl::StrCat("pairs of ", compared ? "the peer" : "ours",
                               " against itself, one after the other: half the distance between the quartiles, over the median")});
}

}  // namespace troupe::bench
