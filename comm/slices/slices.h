// Slices of memory that this rank shows to the others, and theirs, fetched when they are needed.
//
// The bytes go straight from the owner's memory to their place. A slice has versions, in ascending order: an ask names the one it wants and is
// answered once that is published, so nobody needs to know when others have written. From then on the bytes are read at no known moment: an
// owner writes the next version only when the callers' protocol says that all have what they want of this one (parameters: when the norms of
// a step are known, all its passes have run).
//
// By node: a slice of another machine comes to this one once, as long as it lies there: the first of its `mates` that asks takes it from the
// owner, the others from him, out of the place into which he fetched. README.md says why nobody waits in a circle.
//
// Threads: show before the transport starts; publish and fetch by any; completions on the progress thread.
// Owns: nothing of the caller's. With mates, what was fetched stays as it is until the next fetch into that place, or the transport's end.
// Errors: kUnavailable when the owner is down, or the mate who has it, with the cause; kFailedPrecondition when the owner shows no such slice, or one
//         of another size (the text names both), or a later version. A frame that is none of ours changes nothing.
// Limits: as many open fetches as their callers have rooms.
// Invariants: SlicesTest.BringsTheOwnersBytes, SlicesTest.EndsEveryFetchWhenTheOwnerGoes, SlicesByNode.BringASliceToAMachineOnce.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "comm/slices/copies.h"
#include "comm/slices/register.h"
#include "comm/slices/wire.h"
#include "comm/transport.h"

namespace troupe::comm {

class Slices {
 public:
  // Takes the transport's channel of slices. `mates`: the ranks of this machine that fetch the same slices, itself among them, in one order on all
  // of them; none: every slice comes from its owner.
  explicit Slices(Transport& transport, std::vector<Rank> mates = {});
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
  using Fetch = SliceRegister::Fetch;
  struct Wish {
    SliceKey slice;
    std::int64_t version = 0;
    std::span<std::byte> into{};
    Completion done{};
  };
  struct Open {
    Wish wish;
    Rank asked;                // whose word is awaited
    bool looks_up = false;     // it is the register's
    Fetch from{};              // else: which fetch it shall come from; none from the owner
    bool coming = false;       // the transport writes into it, and ends it
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
  bool is_mate(Rank rank) const;
  Rank register_of(SliceKey slice) const;
  void begin(Wish wish);
  // Asks the register, for the first time or after the one it named has it no longer.
  void look_up(std::int64_t ticket, const std::optional<Fetch>& gone);
  void ask(std::int64_t ticket, const std::optional<Fetch>& from);
  void send(Rank to, const SliceHeader& header);
  void arrive(Arrival arrival);
  void answered(Arrival arrival, const SliceHeader& header);
  void answer(const Ask& ask);
  void give_copy(Rank to, const SliceHeader& header);
  void send_copy(std::int64_t ticket, Copies::Copy& copy, const Copies::Ask& ask);
  void withdrawn(std::int64_t ticket, SliceKey slice);
  void end(std::int64_t ticket, const Status& status);

  Transport& transport_;
  const std::vector<Rank> mates_;
  // What follows: progress thread, once that has started.
  std::map<SliceId, Shown> shown_;
  std::vector<Ask> early_;             // for versions that are not published yet
  std::map<std::int64_t, Open> open_;  // by ticket
  Copies copies_;                      // by the same
  SliceRegister register_;
  std::vector<Wish> held_up_;          // into places that others still take from
  std::int64_t tickets_ = 0;
};

}  // namespace troupe::comm
