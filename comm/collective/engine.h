// The collectives of one rank: starts operations, brings frames to them, lets them end or fail together.
//
// Threads: add_group before the transport starts; start by any; completions on the progress thread.
// Owns: the operations in flight and their scratch (two chunks each). Data is the caller's until the completion.
// Errors: a completion that is not ok means that the group has failed, on every member: a member went down (kUnavailable), or
//         members called different things (kFailedPrecondition, naming operation, ranks and both values). What is open in a failed group
//         and what is started in it later fails with the first cause. Nobody waits for ever.
// Order: operations of a group may be started in different order on different members; they are told apart by their id.
// Invariants: Collective.FoldsInMemberOrderWhateverComesFirst, Collective.FailsEverywhereOrNowhere.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/collective/collective.h"
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

  // Ids and members are the same on all members; `members` holds this rank.
  void add_group(GroupId id, std::vector<Rank> members);
  void start(GroupId group, OperationId id, Collective collective, Completion done);
  // On the progress thread: all operations with `peer` fail.
  void peer_down(Rank peer, const Status& cause);

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
  std::vector<std::pair<std::vector<float>, std::vector<std::byte>>> scratch_;
  bool sweeping_ = false, swept_again_ = false;
};

}  // namespace troupe::comm
