// Which ranks do not answer, since when, and why, as far as one of them knows it.
//
// Nobody asks while nobody looks: the silence of a rank begins when it was lost (its peers, or the launcher, saw it go), or else with the first
// question that it left open, until it answers one, or nobody has asked for kForgotten_ns. Threads: any. Units: times of one steady clock. Invariants: Silences.* in silences_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "runtime/base/status.h"

namespace troupe::actors {

class Silences {
 public:
  static constexpr std::int64_t kForgotten_ns = 60'000'000'000;
  struct Silence {
    Status why;
    std::int64_t since_ns = 0;
  };
  void lost(int rank, const Status& cause, std::int64_t now_ns);
  void answered(int rank);
  // A question that was asked then has come to nothing, because of `why`. What the silence is put down to: that it was lost, where that is known.
  Silence left_open(int rank, const Status& why, std::int64_t asked_ns);

 private:
  struct Known {
    std::int64_t since_ns = 0;
    std::int64_t last_ns = 0;  // that it was found silent
    Status cause{};            // not ok: it was lost
  };
  Known& known_at(int rank, std::int64_t now_ns);
  std::mutex mutex_;
  std::map<int, Known> silent_;
};

}  // namespace troupe::actors
