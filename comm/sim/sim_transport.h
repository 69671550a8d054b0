// One rank's end of the simulated network. Made by SimNetwork::transport.
//
// A bulk larger than the network's eager size is offered: fetch sends the wish for it, its bytes come straight from the sender's memory
// if the sender still waits for them, and `sent` is ok once they are there. Else the fetch ends when the sender is known to be down.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "comm/sim/sim_network.h"
#include "comm/transport.h"

namespace troupe::comm {

class SimTransport final : public Transport {
 public:
  SimTransport(SimNetwork& network, Rank rank) : network_(network), rank_(rank) {}
  ~SimTransport() override;

  Rank rank() const override { return rank_; }
  int world() const override { return network_.world(); }
  void handle(Channel channel, Handler handler) override;
  void on_peer_down(PeerDown handler) override { peer_down_ = std::move(handler); }
  Status start() override;
  void send(Frame frame) override;
  void post(absl::AnyInvocable<void()> function) override { network_.post(rank_, std::move(function)); }
  bool on_progress_thread() const override { return network_.progress_ == rank_; }
  void stop(const Status& why = ok()) override;
  Counters counters() const override { return counters_; }

 private:
  friend class SimNetwork;
  class OfferedBulk;
  class CarriedBulk;
  struct Open {
    Rank peer;
    Completion completion;
    std::span<const std::byte> bulk{};  // of a send that is offered
  };

  // An open completion has a number until it is called.
  std::uint64_t open(Rank peer, Completion completion, std::span<const std::byte> bulk = {});
  void complete(std::uint64_t number, const Status& result);
  void complete_soon(std::uint64_t number, const Status& result);
  // Null once the sender does not wait any more: its memory may be gone.
  const Open* find(std::uint64_t number) const;

  void arrive(Rank from, Channel channel, std::span<const std::byte> header, std::int64_t bulk_bytes, std::unique_ptr<Arrival::Bulk> bulk);
  void fetch(Rank from, std::uint64_t offer, std::byte* into, Completion fetched);
  void refuse(Rank from, std::uint64_t offer);
  void peer_went_down(Rank peer, const Status& cause);
  std::string unfinished() const;

  SimNetwork& network_;
  const Rank rank_;
  std::array<Handler, kChannels> handlers_;
  PeerDown peer_down_;
  std::map<std::uint64_t, Open> open_;
  std::uint64_t last_number_ = 0;
  Counters counters_;
};

}  // namespace troupe::comm
