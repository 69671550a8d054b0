// What a store holds, and who waits in it for what: requests in, frames out. No sockets, no clock.
//
// Threads: one, the store's. Owns: keys, values, counters, addresses; one wait per rank.
// Errors: as the answers say; take() gives false for what is no request. Limits: store_protocol.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/join/frame.h"
#include "comm/join/store.h"

namespace troupe::comm {

class StoreBoard {
 public:
  // Who gets a frame, as the answer to which of his requests.
  struct To {
    Rank rank;
    std::uint32_t id = 0;
  };
  // The same whole frame to all of them, but for the id (protocol::with_id).
  using Send = std::function<void(const std::vector<To>&, const std::string& frame)>;
  StoreBoard(int world, Send send) : world_(world), send_(std::move(send)), addresses_(static_cast<std::size_t>(world)), came_(static_cast<std::size_t>(world)) {}

  // A request of Set .. Exchange, whose type was read. What the rank waited for before is given up.
  bool take(Rank rank, FrameReader& request, Deadline now);
  void give_up(Rank rank);
  void give_up_all();

  Deadline next_deadline() const;  // Deadline::max() if nobody waits
  void expire(Deadline now);       // answers with what is missing
  // Of the exchange: who waits for the others' addresses, and whose have not come. Empty before the first and after the last.
  std::vector<Rank> at_exchange() const;
  bool has_address(Rank rank) const { return exchanged_ || addresses_[static_cast<std::size_t>(rank.value)].has_value(); }

  void answer(Rank rank, std::uint32_t id, const Status& status, std::string_view text = {}, std::int64_t number = 0) const;

 private:
  struct Waiting {
    std::uint8_t type = 0;  // Get, Barrier or Exchange
    std::uint32_t id = 0;
    Deadline deadline;
    std::string key;  // or the barrier's name
    int count = 0;    // of the barrier
  };
  void set(Rank rank, std::uint32_t id, const std::string& key, const std::string& value);
  void add(Rank rank, std::uint32_t id, const std::string& key, std::int64_t n);
  void wait_at_barrier(Rank rank, Waiting waiting);
  void exchange(Rank rank, Waiting waiting, const std::string& address);
  void send_addresses();
  Status make_room(std::size_t bytes);
  std::vector<int> ranks_at(const std::string& barrier) const;
  std::string what_misses(const Waiting& waiting) const;

  const int world_;
  const Send send_;
  std::map<int, Waiting> waiting_;  // by rank
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::int64_t> counters_;
  std::size_t stored_bytes_ = 0;
  std::vector<std::optional<std::string>> addresses_;  // of ranks that wait for the others'
  std::vector<bool> came_;  // by rank: to the exchange, ever
  int addresses_known_ = 0;
  bool exchanged_ = false;
};

}  // namespace troupe::comm
