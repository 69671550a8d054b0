// The relay of a host: its ranks come to it, at a name of the host (an abstract unix socket), and it has one connection to the store for
// all of them. So the store, wherever it runs, has as many connections as there are hosts. The ranks notice no difference: requests,
// answers, refusals and the end of the job pass through; what all ranks of the host get alike comes once.
//
// Threads: one of its own does everything; start, wait_until_left, observers by any other.
// Owns: the name and the connections until it is destroyed; then its ranks are gone for the store, and it is for them.
// Errors: start: kAlreadyExists somebody listens at the name (the same job's relay, if two "hosts" are one), kInvalidArgument. When the
//         store cannot be reached until the deadline, refuses or goes away, every rank that is here or comes hears that as the job's end,
//         with the host's name. Limits and strangers: as the store's (store_door.h).
// Invariants: the store hears of a rank's end (StoreRelayed.ARankThatVanishesBehindARelayIsNamed); of the relay's end both sides hear, and
//             who ran it is named (StoreRelayed.ARelayThatGoesIsNamedOnBothSides).
#pragma once

#include <memory>
#include <string>

#include "comm/join/store.h"

namespace troupe::comm {

class StoreRelay {
 public:
  struct Options {
    std::string name;  // where the ranks of this host find it
    std::string host;  // for people
    Rank run_by{-1};   // the rank in whose process it runs; -1: it is none of the ranks
    std::string store_hosts;
    int store_port = 0;
    std::string secret;
    int world = 1;
    std::chrono::milliseconds strangers_have{5000};
  };
  // Listens at once and then finds the store, which may not be there yet.
  static StatusOr<std::unique_ptr<StoreRelay>> start(Options options, Deadline deadline);
  ~StoreRelay();
  StoreRelay(const StoreRelay&) = delete;
  StoreRelay& operator=(const StoreRelay&) = delete;

  // True when no rank is connected; false when the deadline came first.
  bool wait_until_left(Deadline deadline);
  std::int64_t refused() const;  // connections of strangers

 private:
  class Loop;
  explicit StoreRelay(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

// The name of a job's relay on a host where nobody says another: who does not know the secret does not know it.
std::string relay_name(const std::string& secret);

}  // namespace troupe::comm
