// The transport between ranks that are threads of one process: a bulk moves by one copy when it is fetched.
//
// For a world in one process and for tests of what stands on a transport. The hub outlives its transports.
// Threads: as transport.h; each transport has one progress thread, asleep while there is nothing to do.
// Invariant: a bulk is copied once, by the receiver (LocalTransport.FetchesStraightFromTheSender).
#pragma once

#include <memory>
#include <shared_mutex>
#include <vector>

#include "comm/transport.h"

namespace troupe::comm {

class LocalTransport;

class LocalHub {
 public:
  explicit LocalHub(int world);
  ~LocalHub();
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  // Once per rank.
  std::unique_ptr<Transport> transport(Rank rank);
  // From now on nobody reaches `rank` and it reaches nobody, as if its process had died with this cause: what is open between them ends
  // with it.
  void cut(Rank rank, const Status& cause);
  int world() const { return static_cast<int>(members_.size()); }

 private:
  friend class LocalTransport;
  // Why one of two ranks cannot be reached; with the lock held.
  Status down(Rank a, Rank b) const;
  // Guards what follows; shared while a bulk is copied, so that its sender is there until that is done.
  std::shared_mutex mutex_;
  std::vector<LocalTransport*> members_;   // null until made and after its end
  std::vector<Status> cut_;                // not ok: why the rank is down
};

}  // namespace troupe::comm
