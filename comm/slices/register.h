// Who of a machine has which slice of another machine, or is fetching it: what one rank writes down for its machine. Each slice is written
// down by one of them, another for the next slice (Slices::register_of).
//
// Threads: one. Limits: as many entries as the machine's ranks have fetched and kept. Errors: none.
// Invariants: whoever is told of a fetch is told of one that was written down before his own, so no two wait for each other
// (SliceRegister.NamesOnlyWhoCameBefore).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "comm/slices/wire.h"

namespace troupe::comm {

// A slice is its owner's and has a number there.
struct SliceKey {
  Rank owner;
  SliceId id;
  friend auto operator<=>(const SliceKey&, const SliceKey&) = default;
};

class SliceRegister {
 public:
  // One fetch of one rank; it gives its fetches tickets.
  struct Fetch {
    Rank rank;
    std::int64_t ticket = 0;
    friend bool operator==(const Fetch&, const Fetch&) = default;
  };
  // From which fetch the asker's shall take the slice, which is written down with it; none: from the owner. Of those before it the one in
  // the middle, so that many take from each other as down a tree.
  std::optional<Fetch> source(SliceKey slice, std::int64_t version, Fetch asker);
  // What it fetched is no longer there.
  void withdraw(SliceKey slice, Fetch fetch);
  void peer_down(Rank peer);

 private:
  struct Entry {
    std::int64_t version = -1;
    std::vector<Fetch> fetches;  // of that version, in the order in which they came
  };
  std::map<SliceKey, Entry> slices_;
};

}  // namespace troupe::comm
