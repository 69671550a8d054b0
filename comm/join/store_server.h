// The store of a job (store.h is its clients' side): runs in the launcher, or in rank 0 where there is none. Ranks of other hosts may
// come through a relay of their host (store_relay.h), which has one connection for all of them.
//
// Threads: one of its own does everything; start, abort, wait_until_left, observers by any other. `on_cause` is called on its
// own, once,
//          and must not block.
// Owns: the port until it is destroyed; then its clients' calls fail with kUnavailable.
// Errors: start: kUnavailable the port is taken (said with what to do), kInvalidArgument.
// Limits: a connection that has not proved that it knows the secret within `strangers_have`, or says anything else, is closed,
// counted
//         and logged once an address; at most kStrangersMost of them are open, others wait in the listen queue. The rest:
//         store_protocol.h.
// Invariants: no stranger changes anything (JoinStore.RandomBytesChangeNothing); every wait ends when a rank is lost
//             (JoinStore.ALostRankEndsEveryWaitAndIsNamed).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "comm/join/store.h"

namespace troupe::comm {

class StoreServer {
 public:
  struct Options {
    bool loopback_only = true;
    int port = 0;  // 0: any free one
    std::string local_name;  // not empty: listens at this name of the host, too, if nobody does
    std::string secret;
    int world = 1;
    std::chrono::milliseconds strangers_have{5000};
  };
  using OnCause = absl::AnyInvocable<void(const StoreCause&)>;

  static StatusOr<std::unique_ptr<StoreServer>> start(Options options, OnCause on_cause = {});
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  // Ends the job for all; unless a cause came before, on_cause is called.
  void abort(std::string reason);
  // Ends the job because of a rank that cannot say so itself, unless a cause came before: `reason` names it.
  void lose(Rank rank, std::string reason);
  // Who waits for the others' addresses, and whose have not come: both empty while nobody waits.
  struct Meeting {
    std::vector<Rank> waiting, missing;
  };
  Meeting meeting() const;
  // True when no rank is connected (each said goodbye or was lost); false when the deadline came first.
  bool wait_until_left(Deadline deadline);
  std::int64_t refused() const;  // connections of strangers
  int connections() const;       // of members now: ranks that came themselves, and relays
  std::optional<StoreCause> cause() const;

 private:
  class Loop;
  explicit StoreServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace troupe::comm
