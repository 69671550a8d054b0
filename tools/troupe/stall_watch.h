// Says when no actor of a rank has handled a message for long, what each waits for, and which ranks are missing in a collective: one
// that lives and does not come is no failure, but nobody would know why nothing goes on (CASES T25, T28).
//
// A log line after 10 s and again after twice that, and so on, until the wait ends. Threads: one of its own, for all ranks of this process, which outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/train/local_replicas.h"

namespace troupe::tool {

class StallWatch {
 public:
  explicit StallWatch(const actors::LocalReplicas& ranks);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  struct Watched {
    actors::TrainingJob& job;
    const std::string prefix;                     // of what is said of it
    std::int64_t handled = -1;                    // messages, of all actors
    std::chrono::steady_clock::time_point since{};  // then that changed
    double say_after_s = 0;
  };
  static void look(Watched& rank);

  std::vector<Watched> ranks_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace troupe::tool
