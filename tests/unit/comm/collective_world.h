// Ranks that are threads, each with an engine, and the sums by their definition: what the tests of collectives share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <vector>

#include "comm/collective/engine.h"
#include "comm/local/local_transport.h"

namespace troupe::comm {

inline constexpr GroupId kAll{1};

// Ranks of one process, each with an engine; all are in one group.
class World {
 public:
  explicit World(int ranks, const std::vector<int>& node_of = {}) : hub_(ranks) {
    std::vector<Rank> members;
    for (int rank = 0; rank < ranks; ++rank) members.push_back(Rank(rank));
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(hub_.transport(Rank(rank)));
      engines_.push_back(std::make_unique<CollectiveEngine>(*transports_.back()));
      engines_.back()->add_group(kAll, members, node_of);
      transports_.back()->on_peer_down([engine = engines_.back().get()](Rank peer, const Status& cause) { engine->peer_down(peer, cause); });
    }
    for (auto& transport : transports_) EXPECT_TRUE(transport->start().ok());
  }
  ~World() {
    for (auto& transport : transports_) transport->stop();
  }
  CollectiveEngine& engine(int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(engines_.size()); }
  LocalHub& hub() { return hub_; }
  // Bulks, by all ranks.
  std::int64_t sent_bytes() const {
    std::int64_t sent = 0;
    for (const auto& transport : transports_) sent += transport->counters().bulk_bytes_sent;
    return sent;
  }
  std::int64_t between_nodes_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& engine : engines_) bytes += engine->between_nodes_bytes();
    return bytes;
  }

  std::future<Status> start(int rank, std::int64_t id, Collective collective) {
    auto promise = std::make_shared<std::promise<Status>>();
    auto future = promise->get_future();
    engines_[static_cast<std::size_t>(rank)]->start(kAll, OperationId(id), std::move(collective),
                                                    [promise](const Status& status) { promise->set_value(status); });
    return future;
  }

 private:
  LocalHub hub_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<CollectiveEngine>> engines_;
};

inline Status result(std::future<Status>& future) {
  if (future.wait_for(std::chrono::seconds(30)) != std::future_status::ready) return absl::DeadlineExceededError("the collective does not end");
  return future.get();
}

template <class T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// What every collective must give: the sum in member order, in fp32, rounded once.
template <class T>
std::vector<T> folded(const std::vector<std::vector<T>>& addends) {
  std::vector<T> sums;
  for (std::size_t i = 0; i < addends.front().size(); ++i) {
    float sum = static_cast<float>(addends.front()[i]);
    for (std::size_t member = 1; member < addends.size(); ++member) sum += static_cast<float>(addends[member][i]);
    sums.push_back(T(sum));
  }
  return sums;
}

}  // namespace troupe::comm
