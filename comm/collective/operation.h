// One member's share of one collective: a state machine that the progress thread drives. Private to the engine.
//
// Every element has one member that folds it (its owner, see Parts); a small all-reduce is folded by everybody. Addends go to their
// owner in chunks, in order, a few under way for each receiver; the owner fetches them in the order of the members and adds. What is
// folded goes to those who shall have it, straight into its place. A chunk is folded before its result leaves, so a result never
// overwrites an addend that somebody still has to fetch.
//
// Threads: the progress thread. Owns: its scratch, two chunks at most.
// Errors: after fail() nothing is sent or fetched any more; ended() once all that was under way has come back.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/wire.h"
#include "comm/transport.h"

namespace troupe::comm {

class Operation {
 public:
  // An all-reduce up to this size is folded by everybody: one trip instead of two.
  static constexpr std::int64_t kSmallBytes = 16 << 10;
  // Of sums: what is folded is still in a cache when it is fetched (512 KiB: 9 % slower). What is only moved: fewer trips.
  static constexpr std::int64_t kChunkBytes = 256 << 10, kMovedChunkBytes = 512 << 10;
  static constexpr int kWindow = 4;  // frames under way to one receiver

  // Room for a chunk; handed from one operation to the next.
  struct Scratch {
    std::vector<float> sum;            // of the members so far, where it is not in place
    std::vector<std::byte> incoming;
  };

  // `changed` outlives the operation and is called when something has come back; the caller then looks at ended().
  Operation(Transport& transport, const Group& group, OperationId id, Collective collective, Completion done, Scratch scratch,
            const std::function<void()>& changed);

  void start();
  // A frame for this operation. Not ok: it does not belong to it (the text names both sides).
  Status arrive(const CollectiveHeader& header, Arrival arrival);
  void fail(const Status& cause);
  const Status& failure() const { return failure_; }
  bool ended() const { return under_way_ == 0 && (!failure_.ok() || complete()); }
  // Once ended: calls `done` and gives the scratch back.
  Scratch finish();
  std::string describe() const;

 private:
  struct Outgoing {  // to one member
    Phase phase;
    const std::byte* base;            // where element 0 lies
    std::int64_t next = 0, end = 0;   // elements still to be sent
    int in_flight = 0;
  };
  struct Waiting {
    CollectiveHeader header;
    Arrival arrival;
  };

  bool reduces() const { return collective_.kind == CollectiveKind::kAllReduce || collective_.kind == CollectiveKind::kReduceScatter; }
  bool complete() const;
  bool is_owner(int member) const;
  std::int64_t expected_results() const;
  std::int64_t chunk_elements() const { return (reduces() ? kChunkBytes : kMovedChunkBytes) / size_; }
  std::byte* at(std::int64_t element) const { return collective_.data + element * size_; }

  void queue(int to, Phase phase, const std::byte* base, std::int64_t begin, std::int64_t end);
  void send_more(int to);
  void send_one(int to, Phase phase, const std::byte* bulk, std::int64_t offset, std::int64_t count);
  void fold_more();
  void fold(int member);
  void chunk_folded();
  void take_result(const CollectiveHeader& header, Arrival arrival);
  CollectiveHeader header(int to, Phase phase, std::int64_t offset, std::int64_t count) const;

  Transport& transport_;
  const Group& group_;
  const OperationId id_;
  Collective collective_;
  Completion done_;
  const std::function<void()>& changed_;  // outlives us: we may be destroyed in it
  const std::int64_t size_;           // bytes of an element
  const bool small_;

  Status failure_;
  int under_way_ = 0;                 // sends and fetches that have not come back
  std::vector<std::deque<Outgoing>> outgoing_;  // per member
  std::int64_t results_received_ = 0;
  int arrived_ = 0;                   // barrier

  // The chunk that is being folded: [fold_at_, fold_to_) of [.., fold_end_).
  std::int64_t fold_at_ = 0, fold_to_ = 0, fold_end_ = 0;
  int fold_next_ = 0;                 // the member whose addend is next
  bool fetching_ = false;
  std::vector<std::deque<Waiting>> waiting_;    // per member: addends that have come
  Scratch scratch_;
};

}  // namespace troupe::comm
