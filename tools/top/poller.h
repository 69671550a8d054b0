// Asks, on a thread of its own, again and again, so that keys are heard while a job is slow to answer.
//
// Threads: its methods by one; the question on the thread of this. Owns: that thread; whoever ends this waits for the answer that is under way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/status.h"

namespace troupe::top {

struct Answer {
  StatusOr<nlohmann::json> frame;
  bool ended = false;  // the job is no more
  std::string opened;  // the actor that was asked about
  StatusOr<nlohmann::json> mailbox = nlohmann::json(), peek = nlohmann::json();
};

class Poller {
 public:
  using Question = std::function<Answer(const std::string& opened)>;
  // From the start of a question to the start of the next: `interval`, or as long as the answer takes.
  Poller(Question question, std::chrono::nanoseconds interval);
  ~Poller();

  int waker() const { return waker_; }  // readable when there is an answer
  std::optional<Answer> take();
  void open(const std::string& actor);  // asks about it at once
  // Lets no question begin; whether none is under way by then.
  bool ends_within(std::chrono::nanoseconds patience);

 private:
  void run();

  const Question question_;
  const std::chrono::nanoseconds interval_;
  const int waker_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<Answer> answer_;
  std::string opened_;
  bool at_once_ = false, ending_ = false, done_ = false;

  std::thread thread_;
};

}  // namespace troupe::top
