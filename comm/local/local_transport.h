// The transport between ranks that are threads of one process: a bulk moves by one copy when it is fetched.
//
// For a world in one process and for tests of what stands on a transport. The hub outlives its transports.
// Threads: as transport.h; each transport has one progress thread, asleep while there is nothing to do.
// Invariant: a bulk is copied once, by the receiver (LocalTransport.FetchesStraightFromTheSender).
#pragma once

#include <memory>
#include <mutex>
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
  // From now on nobody reaches `rank` and it reaches nobody, as if its process had died with this cause.
  void cut(Rank rank, const Status& cause);
  int world() const { return static_cast<int>(members_.size()); }

 private:
  friend class LocalTransport;
  std::mutex mutex_;                       // guards what follows
  std::vector<LocalTransport*> members_;   // null until made and after its end
  std::vector<Status> cut_;                // not ok: why the rank is down
};

}  // namespace troupe::comm
