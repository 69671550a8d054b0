// What a signal to the launcher means for its job.
//
// SIGINT and SIGTERM ask the job to end. The first sets no deadline, since the ranks may be saving; the second kills them soon after it.
// Threads: one; time is passed in.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <span>

#include "comm/join/store.h"

namespace troupe::tool {

inline constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};

// A signalfd of these and SIGCHLD. Those that are ignored, as nohup does with SIGHUP and a shell with a background job's SIGINT, stay so.
int listen_to_signals(std::span<const int> numbers);

class LauncherSignals {
 public:
  static constexpr std::chrono::milliseconds kOneRequest{200};  // timeout(1) signals its child and at once the child's group
  static constexpr std::chrono::seconds kKilledAfter{1};        // of the second: to end by themselves

  enum class Meaning { kPass, kEnd, kEndNow, kNothing };
  Meaning take(int number, comm::Deadline now) {
    if (number != SIGINT && number != SIGTERM) return Meaning::kPass;
    if (!asked_at_) {
      asked_at_ = now;
      return Meaning::kEnd;
    }
    if (asked_twice_ || now - *asked_at_ < kOneRequest) return Meaning::kNothing;
    asked_twice_ = true;
    return Meaning::kEndNow;
  }
  bool asked_to_end() const { return asked_at_.has_value(); }

 private:
  std::optional<comm::Deadline> asked_at_;
  bool asked_twice_ = false;
};

}  // namespace troupe::tool
