// Decides whether a step counts: not when loss or norm is not finite, nor when the loss is far above its moving average.
//
// Threads: the ledger's. Its state is part of a checkpoint, so a resumed run decides the same (CASES T22, T57).
#pragma once

#include <cstdint>
#include <string>

#include "actors/plan/job_config.h"

namespace troupe::actors {

class SpikeGuard {
 public:
  // The average counts only after so many losses.
  static constexpr std::int64_t kWarmup = 20;

  SpikeGuard(const plan::SpikeSection& settings, double average, std::int64_t averaged, std::int64_t skipped_in_a_row)
      : settings_(settings), average_(average), averaged_(averaged), in_a_row_(skipped_in_a_row) {}

  // Why this step must be skipped, empty when it may go on. A step that goes on enters the average.
  std::string judge(double loss, double grad_norm);

  double average() const { return average_; }
  std::int64_t averaged() const { return averaged_; }
  // Steps skipped in a row, up to now.
  std::int64_t skipped_in_a_row() const { return in_a_row_; }
  bool gives_up() const { return in_a_row_ > settings_.max_skipped; }

 private:
  plan::SpikeSection settings_;
  double average_;          // exponential moving average, ema of the old
  std::int64_t averaged_;
  std::int64_t in_a_row_;
};

}  // namespace troupe::actors
