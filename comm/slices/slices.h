// Slices of memory that this rank shows to the others, and theirs, fetched when they are needed.
//
// The bytes go straight from the owner's memory to their place. A slice has versions, in ascending order: an ask names the one it wants and is
// answered once that is published, so nobody needs to know when others have written. From then on the bytes are read at no known moment: an
// owner writes the next version only when the callers' protocol says that all have what they want of this one (parameters: when the norms of
// a step are known, all its passes have run).
//
// Threads: show before the transport starts; publish and fetch by any; completions on the progress thread.
// Owns: nothing of the caller's; `into` is the caller's again at the completion.
// Errors: kUnavailable when the owner is down, with the cause; kFailedPrecondition when it shows no such slice, or one of another size (the text
//         names both), or a later version. A frame that is none of ours changes nothing.
// Limits: as many open fetches as their callers have rooms.
// Invariants: Slices.BringsTheOwnersBytes, Slices.EndsEveryFetchWhenTheOwnerGoes.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

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
  // The slice holds `version` from now on.
  void publish(SliceId id, std::int64_t version);
  // All of that version: `into` has the slice's size. From oneself too.
  void fetch(Rank owner, SliceId id, std::int64_t version, std::span<std::byte> into, Completion done);
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
  struct Shown {
    std::span<const std::byte> bytes;
    std::int64_t version = -1;       // none yet
  };
  struct Ask {
    Rank from;
    SliceId id;
    std::int64_t ticket = 0, version = 0, bytes = 0;
  };
  void ask(Rank owner, SliceId id, std::int64_t version, std::span<std::byte> into, Completion done);
  void arrive(Arrival arrival);
  void answer(const Ask& ask);
  void end(std::int64_t ticket, const Status& status);

  Transport& transport_;
  std::map<SliceId, Shown> shown_;
  std::vector<Ask> early_;             // for versions that are not published yet
  std::map<std::int64_t, Open> open_;  // by ticket; progress thread
  std::int64_t tickets_ = 0;
};

}  // namespace troupe::comm
