// The inspector thread: computes answers, one at a time, for whoever waits for them.
//
// Threads: submit and withdraw by any; `done` is called on the inspector thread. Owns: questions that have not begun. close() waits for the
// answer that is being computed, and drops the rest.
// Errors: kInternal if the answer function throws, kResourceExhausted if the answer has more than kAnswerBytesMost: looking into a job
//         does not end it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/base/status.h"

namespace troupe::comm {

class Answerer {
 public:
  using Answer = std::function<std::string(std::string_view question)>;
  using Done = std::function<void(StatusOr<std::string>)>;

  explicit Answerer(Answer answer);
  ~Answerer() { close(); }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  // The job's number. Once closed, dropped.
  std::int64_t submit(const std::string& question, Done done);
  // Nobody waits for it any more. If it has begun, `done` is called all the same.
  void withdraw(std::int64_t job);
  void close();

 private:
  struct Job {
    std::string question;
    Done done;
  };
  void run();
  StatusOr<std::string> compute(const std::string& question) const;

  const Answer answer_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::int64_t, Job> jobs_;  // oldest first
  std::int64_t numbers_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace troupe::comm
