// What is said of a job in which nothing goes on: who is at the bottom of it, for people and programs.
// Threads: any; pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/trace/report.h"
#include "runtime/trace/waits.h"

namespace troupe::actors {

// That nothing has gone on.
struct Stall {
  std::int64_t step = -1;  // the open one; -1 where there are none
  double stalled_s = 0;
  double usual_s = 0;      // the median step; 0: not known
};

struct StallReport {
  std::string cause{};  // one line: whom all wait for
  std::string text{};   // for people
  std::string json{};   // README.md
};
// `graph`: of `ranks`, with the last events of those at the bottom.
StallReport stall_report(const Stall& stall, std::span<const trace::RankReport> ranks, const trace::WaitGraph& graph);

// Somebody waits, or a rank is silent, and nobody has paused an actor: then things stand still because they should.
bool is_stalled(std::span<const trace::RankReport> ranks, const trace::WaitGraph& graph);

}  // namespace troupe::actors
