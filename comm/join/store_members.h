// Who is in the job, and through whose connection: a rank's own, or its host's relay's. Frames to ranks go out here, once to each
// connection.
//
// Threads: one, the store's. Owns: nothing; the door owns the callers, and a caller that goes must be removed here before.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/join/store_board.h"
#include "comm/join/store_door.h"

namespace troupe::comm {

class StoreMembers {
 public:
  using Caller = StoreDoor::Caller;
  using To = StoreBoard::To;
  struct Member {
    Caller* by = nullptr;
    bool left = false;  // it has said goodbye, and its connection is not closed yet
  };
  explicit StoreMembers(StoreDoor& door) : door_(door) {}

  void add(Rank rank, Caller& by) { ranks_[rank.value] = {.by = &by}; }
  void add_relay(Caller& relay) { relays_.insert(&relay); }
  Member* find(Rank rank);
  void leave(Rank rank);
  void remove(Rank rank) { ranks_.erase(rank.value); }
  struct LostRelay {
    std::vector<int> ranks;  // that came through it, sorted
    bool in_order = true;    // they have all left, and who runs it has
  };
  LostRelay remove_relay(Caller& relay);

  std::size_t count() const { return ranks_.size(); }
  int connections() const;
  static std::string text_of(const Caller& caller);  // where ranks that come through it are

  // Whole frames. `by`: a rank that is no member yet is reached through it.
  void reply(Caller& by, Rank rank, const std::string& frame);
  void turn_away(Caller& by, Rank rank, absl::StatusCode code, const std::string& why);
  void deliver(const std::vector<To>& all, const std::string& frame);
  // To everybody who has not left: relays pass it on.
  void tell_all(const std::string& frame);

 private:
  void send(Caller& by, const std::vector<To>& to, const std::string& frame);

  StoreDoor& door_;
  std::map<int, Member> ranks_;
  std::set<Caller*> relays_;
  std::set<int> left_;
};

}  // namespace troupe::comm
