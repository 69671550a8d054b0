// Ranks of a simulated network that are spoken for by hand: for tests of what one rank does with the frames of others.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/sim/sim_network.h"
#include "tests/sim/fault.h"

namespace troupe::test {

// Rank 0 belongs to the test; what the others get is kept until they take it. Every bulk lies at its sender until then.
class ByHand {
 public:
  struct Got {
    std::vector<std::byte> header;
    comm::Arrival arrival;
  };

  // `of`: of a world that has a clock, and runs in its own way.
  ByHand(int world, comm::Channel channel, const Clock* of = nullptr) : channel_(channel) {
    network = std::make_unique<comm::SimNetwork>(of ? *of : own_clock_, comm::SimNetworkOptions{.world = world, .seed = 3, .eager_bytes_most = 0});
    for (int rank = 0; rank < world; ++rank) {
      transports_.push_back(network->transport(Rank(rank)));
      if (rank == 0) continue;
      transports_.back()->handle(channel, [&kept = got.emplace_back()](comm::Arrival arrival) {
        const auto header = arrival.header();
        kept.push_back({{header.begin(), header.end()}, std::move(arrival)});
      });
    }
  }
  virtual ~ByHand() { stop(); }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  comm::Transport& transport(int rank = 0) { return *transports_[static_cast<std::size_t>(rank)]; }
  std::deque<Got>& of(int rank) { return got[static_cast<std::size_t>(rank - 1)]; }
  void stop() {
    for (auto& transport : transports_) transport->stop();
  }
  void start() {
    for (auto& transport : transports_) ASSERT_TRUE(transport->start().ok());
  }
  virtual void run() { ASSERT_TRUE(test::run(own_clock_, *network)) << "it does not end"; }
  // On the progress thread of that rank.
  template <class Act>
  void on(int rank, Act act) {
    transport(rank).post(std::move(act));
  }

  // What became of a frame.
  struct Sent {
    std::vector<std::byte> bulk;
    std::optional<Status> end;
  };
  Sent& send(int from, std::span<const std::byte> header, std::span<const std::byte> bulk = {}) {
    Sent& sent = sent_.emplace_back(Sent{{bulk.begin(), bulk.end()}, {}});
    transport(from).send({.to = Rank(0), .channel = channel_, .lane = bulk.empty() ? comm::Lane::kControl : comm::Lane::kBulk,
                          .header = header, .bulk = sent.bulk, .sent = [&sent](Status status) { sent.end = std::move(status); }});
    return sent;
  }
  // `rank` fetches what it has got; the bytes of the bulks, one after the other.
  std::vector<std::byte>& take(int rank, std::size_t most = 1'000'000) {
    auto& bytes = taken_.emplace_back();
    auto& kept = of(rank);
    std::size_t total = 0;
    for (std::size_t i = 0; i < std::min(most, kept.size()); ++i) total += static_cast<std::size_t>(kept[i].arrival.bulk_bytes());
    bytes.resize(total);
    std::byte* at = bytes.data();
    for (; most > 0 && !kept.empty(); --most, kept.pop_front()) {
      const auto size = kept.front().arrival.bulk_bytes();
      if (size == 0) continue;
      on(rank, [arrival = std::make_shared<comm::Arrival>(std::move(kept.front().arrival)), at] { arrival->fetch(at, [](const Status&) {}); });
      at += size;
    }
    return bytes;
  }

  VirtualClock& clock() { return own_clock_; }

 private:
  VirtualClock own_clock_;

 public:
  std::unique_ptr<comm::SimNetwork> network;
  std::deque<std::deque<Got>> got;  // by rank, from 1 on

 private:
  const comm::Channel channel_;
  std::vector<std::unique_ptr<comm::Transport>> transports_;
  std::deque<Sent> sent_;
  std::deque<std::vector<std::byte>> taken_;
};

}  // namespace troupe::test
