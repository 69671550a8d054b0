// Slices of memory that this rank shows to the others, and theirs, fetched when they are needed.
//
// The bytes go straight from the owner's memory to their place. They are read between the ask and its end, at no known moment: an owner
// changes a slice only when the callers' protocol says that nobody reads it (parameters: between the norms of a step and its updates).
//
// Threads: show before the transport starts; fetch by any; completions on the progress thread.
// Owns: nothing of the caller's; `into` is the caller's again at the completion.
// Errors: kUnavailable when the owner is down, with the cause; kFailedPrecondition when it shows no such slice, or one of another size (the text
//         names both). A frame that is none of ours changes nothing.
// Limits: as many open fetches as their callers have rooms.
// Invariants: Slices.BringsTheOwnersBytes, Slices.EndsEveryFetchWhenTheOwnerGoes.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "comm/transport.h"

namespace troupe::comm {

using SliceId = Id<struct SliceTag>;

class Slices {
 public:
  // Takes the transport's channel of slices.
  explicit Slices(Transport& transport);
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  void show(SliceId id, std::span<const std::byte> bytes);
  // All of it: `into` has the slice's size. From oneself too.
  void fetch(Rank owner, SliceId id, std::span<std::byte> into, Completion done);
  // On the progress thread: what is asked of `peer` ends with the cause.
  void peer_down(Rank peer, const Status& cause);

 private:
  struct Open {
    Rank owner;
    SliceId id;
    std::span<std::byte> into;
    Completion done;
    bool coming = false;  // the transport writes into it, and ends it
  };
  void ask(Rank owner, SliceId id, std::span<std::byte> into, Completion done);
  void arrive(Arrival arrival);
  void answer(Rank to, std::int64_t ticket, SliceId id, std::int64_t bytes);
  void end(std::int64_t ticket, const Status& status);

  Transport& transport_;
  std::map<SliceId, std::span<const std::byte>> shown_;
  std::map<std::int64_t, Open> open_;  // by ticket; progress thread
  std::int64_t tickets_ = 0;
};

}  // namespace troupe::comm
