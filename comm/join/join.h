// Enters a job: meets the other processes in the store and learns where each of them can be reached.
//
// Threads: one at a time. Owns: the connection to the store or to the host's relay; where there is no launcher, in rank 0 the store itself
// and in the first rank of another host its relay.
// Errors: as store.h. The others hear why a rank that they have met gives up; one that waits for another in vain ends the job for all, with the name of the one that is missing
// (JoinCrowd.OneThatIsMissingIsNamedToAll). A world of 1 needs no store and cannot fail.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/join/cancel.h"
#include "comm/join/environment.h"
#include "comm/join/store.h"
#include "comm/join/store_relay.h"
#include "comm/join/store_server.h"

namespace troupe::comm {

class Joined {
 public:
  Joined(Place place, std::vector<std::string> addresses, std::unique_ptr<StoreServer> server = {}, std::unique_ptr<StoreRelay> relay = {},
         std::unique_ptr<StoreClient> store = {})
      : place_(std::move(place)),
        addresses_(std::move(addresses)),
        server_(std::move(server)),
        relay_(std::move(relay)),
        store_(std::move(store)) {}
  Joined(Joined&&) = default;
  Joined& operator=(Joined&&) = default;
  // Who dies without leave() is counted as lost, and the job ends.
  ~Joined() = default;

  const Place& place() const { return place_; }
  const std::vector<std::string>& addresses() const { return addresses_; }  // by rank: opaque bytes
  StoreClient* store() { return store_.get(); }                             // null when alone

  // Ends the job for everybody with this cause, or with its first_cause(); for a rank that fails.
  Status abort(const Status& why);
  // kAborted when another rank did, or was lost. Never waits.
  Status check();
  // Leaves in order. Who runs the store or a relay waits for the others until the deadline, since they need it.
  Status leave(Deadline deadline);

 private:
  Place place_;
  std::vector<std::string> addresses_;
  std::unique_ptr<StoreServer> server_;  // both outlive our own connection to them
  std::unique_ptr<StoreRelay> relay_;
  std::unique_ptr<StoreClient> store_;
};

// `cancel` ends it with kCancelled, and the others hear its reason; it outlives what was joined.
StatusOr<Joined> join(const Place& place, std::string my_address, Deadline deadline, const Cancel* cancel = nullptr);

}  // namespace troupe::comm
