// The collectives of one rank: starts operations, brings frames to them, lets them end or fail together.
//
// Threads: add_group before the transport starts; start by any; completions on the progress thread.
// Owns: the operations in flight and their scratch (three chunks each). Data is the caller's until the completion.
// Errors: a completion that is not ok means that the group has failed, on every member: a member went down (kUnavailable), or
//         members called different things (kFailedPrecondition, naming operation, ranks and both values). What is open in a failed group
//         and what is started in it later fails with the first cause. Nobody waits for ever.
// Order: operations of a group may be started in different order on different members; they are told apart by their id.
// Invariants: Collective.FoldsInMemberOrderWhateverComesFirst, Collective.FailsEverywhereOrNowhere.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/folding.h"
#include "comm/transport.h"

namespace troupe::comm {

class Operation;

class CollectiveEngine {
 public:
  // Takes the transport's channel of collectives.
  explicit CollectiveEngine(Transport& transport);
  ~CollectiveEngine();  // after the transport has stopped
  CollectiveEngine(const CollectiveEngine&) = delete;
  CollectiveEngine& operator=(const CollectiveEngine&) = delete;

  // Ids, members and nodes are the same on all members; `members` holds this rank. `node_of`: for each member a number that those of one
  // machine share (empty: all are on one). It decides in which order sums are folded, and what goes between machines: see layout.h.
  // `name`: for reports.
  void add_group(GroupId id, std::vector<Rank> members, const std::vector<int>& node_of = {}, std::string name = {});
  void start(GroupId group, OperationId id, Collective collective, Completion done);
  // What is open, for a report of what does not go on: each operation with the ranks that have not entered it. By any thread; `tell` is
  // called on the progress thread.
  struct OpenOperation {
    std::string group;  // its name, or else its number
    OperationId id;
    std::string what;
    std::int64_t since_ns = 0;  // how long ago this rank entered it
    std::vector<Rank> entered, missing;
  };
  void report(absl::AnyInvocable<void(std::vector<OpenOperation>)> tell);
  // On the progress thread: all operations with `peer` fail.
  void peer_down(Rank peer, const Status& cause);
  // Of tensors, sent by this rank to members on other nodes since the start. By any thread.
  std::int64_t between_nodes_bytes() const { return between_nodes_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Early;
  struct OpenGroup;
  using Key = std::pair<GroupId, OperationId>;

  void begin(OpenGroup& group, OperationId id, Collective collective, Completion done);
  void arrive(Arrival arrival);
  void fail_group(OpenGroup& group, OperationId id, const Status& cause, bool tell);
  void sweep();

  Transport& transport_;
  const std::function<void()> changed_ = [this] { sweep(); };
  std::map<GroupId, std::unique_ptr<OpenGroup>> groups_;
  std::map<Key, std::unique_ptr<Operation>> operations_;
  std::map<Key, std::vector<Early>> early_;   // frames for operations that have not been started here
  std::vector<Folding::Scratch> scratch_;
  std::atomic<std::int64_t> between_nodes_bytes_{0};
  bool sweeping_ = false, swept_again_ = false;
};

}  // namespace troupe::comm
