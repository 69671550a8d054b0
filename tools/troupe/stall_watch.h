// Says when no actor of this process has handled a message for long, what each waits for, and which ranks are missing in a collective: one
// that lives and does not come is no failure, but nobody would know why nothing goes on (CASES T25, T28).
//
// A log line after 10 s and again after twice that, and so on, until the wait ends. Threads: one of its own. The job outlives it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "actors/train/training_job.h"

namespace troupe::tool {

class StallWatch {
 public:
  explicit StallWatch(actors::TrainingJob& job);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  void look();

  actors::TrainingJob& job_;
  std::int64_t handled_ = -1;                     // messages, of all actors
  std::chrono::steady_clock::time_point since_;   // then that changed
  double say_after_s_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace troupe::tool
