// What ranks leave running outside their process groups: a child in a session of its own (setsid), a daemon.
//
// Launcher and agent are such a process's parent once its own has gone (Guard makes them that), and it is known by the mark of their
// guard in the environment with which it was started. What has cleared that is nobody's and stays.
// Threads: one at a time. Invariants: no process without the mark gets a signal (LaunchEnds.WhatAnotherJobLeavesIsLeftAlone).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "comm/join/store.h"

namespace troupe::tool {

inline constexpr char kMarkVariable[] = "TROUPE_CREW";

// Those that carry the mark, as "name (pid)"; each gets the signal, if it is not 0.
std::vector<std::string> signal_marked(const std::string& mark, int signal);

// Takes the ends of children that are nobody's. `is_ours`: who is waited for by pid.
void reap_orphans(absl::FunctionRef<bool(pid_t)> is_ours);

// How they are ended, once the ranks have: SIGTERM, then SIGKILL.
class Leftovers {
 public:
  static constexpr std::chrono::seconds kEndWithin{5}, kGoneWithin{1};

  explicit Leftovers(std::string mark) : mark_(std::move(mark)) {}
  // What is due; when to be called again. `say`: of those that do not heed it.
  comm::Deadline end(absl::FunctionRef<void(const std::string& line)> say);
  void look() { look_at_ = {}; }  // a child has ended
  void hurry();                     // SIGKILL at once, now or when their time comes
  bool gone() const { return gone_; }

 private:
  const std::string mark_;
  bool told_ = false, killed_ = false, gone_ = false;
  comm::Deadline look_at_{}, kill_at_ = comm::Deadline::max();
};

}  // namespace troupe::tool
