// One member's share of one collective: a state machine that the progress thread drives. Private to the engine.
//
// Every element has one member that folds it (its owner, see Parts); a small all-reduce in one node is folded by everybody. Addends go to
// their owner in chunks, in order, a few under way for each receiver; the owner fetches them in the order of the members and adds. What is
// folded goes to those who shall have it, straight into its place. A chunk is folded before its result leaves, so a result never
// overwrites an addend that somebody still has to fetch. Between nodes (layout.h) addends go to who sums for the node, its sums to the
// owner, and results by who hands them on.
//
// Of a sparse sum the blocks that are zero stay behind: what is sent is a copy of the others, taken when it goes; what comes is put in its
// place's end and spread from there.
//
// Nobody waits in a circle: a node's sum waits for addends alone, an owner's sum for those, a result for the owner's sum; results are
// fetched as they come, and the chunks that a member folds take turns in an order that all know (folding.h).
//
// Threads: the progress thread. Owns: its scratch, three chunks at most; in a reduce-scatter over nodes the sums that are on their way, in a
// sparse sum the copies (kWindow chunks for a receiver at most).
// Errors: after fail() nothing is sent or fetched any more; ended() once all that was under way has come back.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/folding.h"
#include "comm/collective/layout.h"
#include "comm/collective/wire.h"
#include "comm/transport.h"

namespace troupe::comm {

class Operation {
 public:
  // An all-reduce up to this size is folded by everybody: one trip instead of two.
  static constexpr std::int64_t kSmallBytes = 16 << 10;
  // Of sums: what is folded is still in a cache when it is fetched (512 KiB: 9 % slower). What is only moved: fewer trips.
  static constexpr std::int64_t kChunkBytes = 256 << 10, kMovedChunkBytes = 2 << 20;
  static constexpr int kWindow = 4;  // frames under way to one receiver

  using Scratch = Folding::Scratch;

  // `changed` outlives the operation and is called when something has come back; the caller then looks at ended().
  Operation(Transport& transport, const Group& group, const Layout& layout, OperationId id, Collective collective, Completion done,
            Scratch scratch, const std::function<void()>& changed, std::atomic<std::int64_t>& between_nodes_bytes);

  void start();
  // A frame for this operation. Not ok: it does not belong to it (the text names both sides).
  Status arrive(const CollectiveHeader& header, Arrival arrival);
  void fail(const Status& cause);
  const Status& failure() const { return failure_; }
  bool ended() const { return under_way_ == 0 && (!failure_.ok() || complete()); }
  // Once ended: calls `done` and gives the scratch back.
  Scratch finish();
  std::string describe() const;
  std::int64_t age_ns() const { return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun_).count(); }
  // Members that have not entered it, as far as is seen from here: nothing came from them, or they take nothing.
  std::vector<Rank> missing() const;

 private:
  struct Outgoing {  // to one member
    Phase phase;
    const std::byte* bytes;           // where element `begin` lies
    std::int64_t begin = 0, end = 0;
    std::int64_t next = 0;            // to be sent
    std::shared_ptr<std::vector<std::byte>> kept{};  // what is sent, where it is not the caller's
    std::int64_t number = 0;          // tells it from the others
    int in_flight = 0;
  };
  struct Waiting {
    CollectiveHeader header;
    Arrival arrival;
  };

  bool reduces() const { return collective_.kind == CollectiveKind::kAllReduce || collective_.kind == CollectiveKind::kReduceScatter; }
  bool complete() const;
  std::int64_t expected_results() const;
  std::int64_t chunk_elements() const { return (reduces() ? kChunkBytes : kMovedChunkBytes) / size_; }
  std::byte* at(std::int64_t element) const { return collective_.data + element * size_; }

  void queue_addends(int to);
  void queue(int to, Phase phase, const std::byte* bytes, std::int64_t begin, std::int64_t end,
             std::shared_ptr<std::vector<std::byte>> kept = nullptr);
  void hand_on(int part, std::int64_t begin, std::int64_t end);
  void send_more(int to);
  void send_one(int to, Phase phase, const std::byte* bulk, std::int64_t offset, std::int64_t count, std::int64_t number);
  void sent_one(int to, std::int64_t number);
  int part_of(const CollectiveHeader& header) const;
  void fold_more();
  void piece_folded();
  void take_result(const CollectiveHeader& header, int part, Arrival arrival);
  void result_came(int part, std::int64_t begin, std::int64_t end);
  std::int64_t bulk_bytes(const CollectiveHeader& header) const;
  bool fetch(const CollectiveHeader& header, Arrival& arrival, std::byte* into, absl::AnyInvocable<void()> came);
  CollectiveHeader header(int to, Phase phase, std::int64_t offset, std::int64_t count) const;

  Transport& transport_;
  const Group& group_;
  const Layout& layout_;
  const OperationId id_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();  // for who looks inside; decides nothing
  Collective collective_;
  Completion done_;
  const std::function<void()>& changed_;  // outlives us: we may be destroyed in it
  const std::int64_t size_;           // bytes of an element
  const bool small_;
  std::atomic<std::int64_t>& between_nodes_bytes_;

  Status failure_;
  int under_way_ = 0;                 // sends and fetches that have not come back
  std::vector<std::vector<Outgoing>> outgoing_;  // per member; few at a time, and empty ones cost no memory
  std::int64_t results_received_ = 0;
  int arrived_ = 0;                   // barrier
  std::vector<bool> heard_;           // per member

  Folding folding_;
  bool fetching_ = false;                       // an addend
  std::vector<std::vector<Waiting>> waiting_;   // per member: addends and nodes' sums that have come, in their order
  std::int64_t outgoings_ = 0;                  // so far
  std::size_t kept_ = 0;                        // of those that wait or are under way
};

}  // namespace troupe::comm
