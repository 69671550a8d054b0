// A job of threads whose ranks can be asked; some of them may hang.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/inspect/inspect_tree.h"
#include "comm/local/local_transport.h"

namespace troupe::comm {

using namespace std::chrono_literals;

// Who passes waits until it is open.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  bool wait_for_somebody() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

inline bool holds_soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return condition();
}

class InspectedJob {
 public:
  using AnswerOf = std::function<std::string(int rank, std::string_view question)>;
  static std::string echo(int rank, std::string_view question) { return absl::StrCat(rank, ": ", std::string(question)); }

  // Ranks from `played` on are played by the test.
  explicit InspectedJob(int world, const AnswerOf& answer = echo, int played = 1'000) : hub_(world) {
    for (int rank = 0; rank < world; ++rank) {
      transports_.push_back(hub_.transport(Rank(rank)));
      if (rank >= played) continue;
      trees_.push_back(std::make_unique<InspectTree>(transports_.back().get(), [answer, rank](std::string_view question) { return answer(rank, question); }));
      transports_.back()->on_peer_down([this, rank](Rank peer, const Status& cause) {
        std::lock_guard lock(mutex_);
        if (const auto& tree = trees_[static_cast<std::size_t>(rank)]) tree->peer_down(peer, cause);
      });
    }
  }
  ~InspectedJob() {
    gate.open();
    for (auto& transport : transports_) transport->stop();
  }
  void start() {
    for (auto& transport : transports_) ASSERT_TRUE(transport->start().ok());
  }
  // Its progress thread hangs, as in a stopped process.
  void freeze(int rank) {
    transport(rank).post([this] { gate.pass(); });
    ASSERT_TRUE(gate.wait_for_somebody());
  }
  void cut(int rank) { hub_.cut(Rank(rank), absl::UnavailableError(absl::StrCat("rank ", rank, " is down: test"))); }
  Transport& transport(int rank) { return *transports_[static_cast<std::size_t>(rank)]; }
  InspectTree& tree(int rank) { return *trees_[static_cast<std::size_t>(rank)]; }
  void end_tree(int rank) {
    std::unique_lock lock(mutex_);
    const auto ended = std::move(trees_[static_cast<std::size_t>(rank)]);
    lock.unlock();
  }
  std::vector<InspectReply> ask(int by, const std::string& question, std::chrono::nanoseconds patience = 60s) { return tree(by).ask(question, patience); }

  Gate gate;  // opens at the end at the latest

 private:
  LocalHub hub_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::mutex mutex_;  // guards who is in trees_
  std::vector<std::unique_ptr<InspectTree>> trees_;
};

// One reply for each rank, in their order; those that answered, but for `silent`, with echo().
inline void expect_echoes(const std::vector<InspectReply>& replies, int world, const std::string& question, const std::vector<int>& silent = {}) {
  ASSERT_EQ(replies.size(), static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    const InspectReply& reply = replies[static_cast<std::size_t>(rank)];
    EXPECT_EQ(reply.rank, Rank(rank));
    if (std::find(silent.begin(), silent.end(), rank) != silent.end()) {
      EXPECT_FALSE(reply.status.ok()) << "rank " << rank;
      EXPECT_EQ(reply.text, "");
    } else {
      EXPECT_EQ(reply.status, ok()) << "rank " << rank;
      EXPECT_EQ(reply.text, InspectedJob::echo(rank, question));
    }
  }
}

inline std::string message(const InspectReply& reply) { return std::string(reply.status.message()); }

}  // namespace troupe::comm
