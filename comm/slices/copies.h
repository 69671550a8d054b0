// What this rank has fetched from another machine and the others of its own machine may take from it, as long as it lies where it was put.
//
// Nobody lends memory for this: a copy is the place into which somebody fetched for himself. He says nothing when he is done with it; the
// next fetch into any of its bytes withdraws it, and waits only while the bytes are being taken.
// Threads: one. Owns: nothing. Errors: none; a fetch into the place of one that has not ended is a bug.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "comm/slices/register.h"

namespace troupe::comm {

class Copies {
 public:
  // Somebody of this machine that waits for the copy.
  struct Ask {
    Rank from;
    std::int64_t ticket = 0;  // his
  };
  struct Copy {
    SliceKey slice;
    std::int64_t version = 0;
    std::span<const std::byte> bytes{};
    bool complete = false;
    bool withdrawn = false;   // gone when the last has taken it
    int taking = 0;           // sends out of it that have not ended
    std::vector<Ask> waiting;  // until it is complete
  };
  // A place that no other copy overlaps; by the fetch's ticket.
  void add(std::int64_t ticket, Copy copy);
  // Null: there is none, or it was withdrawn.
  Copy* find(std::int64_t ticket);
  // The copies in these bytes are no longer given away: `each` with ticket and slice of those that were until now. True when nobody takes any
  // of the bytes any more.
  bool clear(std::span<const std::byte> bytes, const std::function<void(std::int64_t ticket, SliceKey slice)>& each);
  void remove(std::int64_t ticket);
  // One send has ended. True when a place is free by that.
  bool taken(std::int64_t ticket);
  // What it waits for is nobody's any more.
  void peer_down(Rank peer);

 private:
  std::map<std::int64_t, Copy> copies_;               // by ticket
  std::map<const std::byte*, std::int64_t> by_place_;  // first byte -> ticket
};

}  // namespace troupe::comm
