// A store, and threads that play the ranks of its job: what the tests of the store and of its relays begin with.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/join/store.h"
#include "comm/join/store_server.h"
#include "tests/unit/comm/join/stranger.h"

namespace troupe::comm {

class ServedStore : public testing::Test {
 protected:
  // Another one, if there was one.
  void serve(StoreServer::Options options) {
    server_.reset();
    causes_.clear();
    world_ = options.world;
    options.secret = "secret";
    auto server = StoreServer::start(std::move(options), [this](const StoreCause& cause) {
      const std::lock_guard lock(mutex_);
      causes_.push_back(cause);
    });
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
  }
  // How a rank comes to the store.
  virtual StoreClient::Options options(int rank) const {
    return {.hosts = "127.0.0.1", .port = server_->port(), .secret = "secret", .rank = Rank{rank}, .world = world_, .build = kBuild};
  }
  std::unique_ptr<StoreClient> client(int rank) const {
    auto connected = StoreClient::connect(options(rank), after(kPatience));
    EXPECT_TRUE(connected.ok()) << connected.status().message();
    return connected.ok() ? *std::move(connected) : nullptr;
  }
  // Each rank on a thread of its own.
  void each(const std::function<void(int rank)>& run) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) threads.emplace_back(run, rank);
    for (auto& thread : threads) thread.join();
  }
  std::vector<StoreCause> causes() const {
    const std::lock_guard lock(mutex_);
    return causes_;
  }

  mutable std::mutex mutex_;
  std::vector<StoreCause> causes_;  // by mutex_
  std::unique_ptr<StoreServer> server_;
  int world_ = 0;
};

}  // namespace troupe::comm
