// Ranks whose process stands still (SIGSTOP): who is stopped before he has joined has no heartbeats, and the others would wait for him
// until their patience ends.
// Threads: one, the launcher's; time is passed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "comm/join/store_server.h"
#include "runtime/base/ids.h"

namespace troupe::tool {

class StoppedRanks {
 public:
  // So long may a rank stand still while the others wait for it: the heartbeats take about as long later.
  static constexpr std::chrono::seconds kStoppedMost{4};

  void note(Rank rank, bool stopped, comm::Deadline now) {
    if (stopped) since_.emplace(rank.value, now);
    else since_.erase(rank.value);
  }
  bool any() const { return !since_.empty(); }
  // One that has stood still for too long and for whose address another waits that is not stopped itself: a whole job may be.
  std::optional<Rank> awaited(const comm::StoreServer& store, comm::Deadline now) const {
    if (!any()) return std::nullopt;
    const auto [waiting, missing] = store.meeting();
    if (std::ranges::all_of(waiting, [&](Rank rank) { return since_.contains(rank.value); })) return std::nullopt;
    for (const Rank rank : missing) {
      if (const auto found = since_.find(rank.value); found != since_.end() && now - found->second >= kStoppedMost) return rank;
    }
    return std::nullopt;
  }

 private:
  std::map<int, comm::Deadline> since_;
};

}  // namespace troupe::tool
