// Which rank computes slower than those that have the same work. Not who arrives late at a collective: that may be whoever waited for it.
//
// Compared is the time that the compute stream has worked in a step (StreamRow::step_busy_ns), between ranks with the same stages: the others
// have other work. Threads: any; pure.
#pragma once

#include <optional>
#include <span>

#include "runtime/trace/report.h"

namespace troupe::trace {

struct Straggler {
  static constexpr double kStandsOut = 1.1;  // times the median of its equals
  static constexpr double kBusyLeast = 0.2;  // of its time: who computes less than that holds nobody up, whatever the others do

  int rank = -1;
  double step_busy_s = 0;  // its own
  double median_s = 0;     // of its equals, itself left out
  double busy_ratio = 0;   // of its compute stream
  double ratio() const { return step_busy_s / median_s; }
};

// The one that stands out most; none where nobody does, or nobody has an equal.
std::optional<Straggler> find_straggler(std::span<const RankReport> ranks);

}  // namespace troupe::trace
