// What training has come to, as seen from outside: written by the ledger as it opens and closes steps, read by anybody without its help.
//
// Threads: the writers by the ledger, one at a time; `row` by any. Owns: its own copy of all it shows; the reader computes what follows from it.
// Units: ns of the clock. Limits: the median is that of the last kRecent steps.
// Where the time went: wall = useful + startup + data_wait + checkpoint_wait + evaluation_wait + skipped + between_steps + overdue, to the
// nanosecond (TrainingProbe.UsefulTimeAndItsLossesAreTheWall); what each is stands in SCHEMA.md, under `training`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "runtime/base/clock.h"
#include "runtime/trace/cell.h"
#include "runtime/trace/ticks.h"
#include "runtime/trace/report.h"

namespace troupe::trace {

class TrainingProbe {
 public:
  static constexpr int kRecent = 64;
  // Of the histogram of step times, in ms: 1, 2, 5 in each decade.
  static constexpr std::array<std::int64_t, 20> kStepBoundsMs{1,    2,     5,     10,    20,    50,     100,    200,    500,       1'000,
                                                              2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000};

  struct Job {
    std::int64_t begun_ns = 0;          // what is spent from here on is accounted for
    std::int64_t first_step = 1;        // of this process: what a resume goes on with
    std::int64_t steps = 0;             // where the run ends
    std::int64_t tokens = 0;            // of the run before
    double tokens_per_step = 0;         // all of them, masked or not
    double flops_per_step = 0;          // of one rank
    double peak_flops_per_s = 0;        // what mfu is a share of; 0: it is not known
  };
  struct Step {
    double loss = 0, grad_norm = 0, learning_rate = 0;
    std::int64_t tokens = 0;            // unmasked
    std::int64_t data_wait_ns = 0, checkpoint_wait_ns = 0, evaluation_wait_ns = 0;
    bool skipped = false;
  };

  // `ticks`: the time that the ledger gives.
  TrainingProbe(Ticks ticks, const Job& job);

  // --- by the ledger ---
  void opened(std::int64_t now_ns);
  void closed(const Step& step, std::int64_t now_ns);
  void evaluated(std::int64_t step, double loss);

  // --- by anybody ---
  TrainingRow row() const;

 private:
  struct Totals {
    std::int64_t closed = 0;            // steps, by this process
    Step last;
    std::int64_t last_ns = 0;           // took the last step
    bool open = false;
    std::int64_t changed_ns = 0;        // since when a step is open, or none
    std::int64_t startup_ns = 0, between_ns = 0;
    // Parts of the time of closed steps; no instant is in two of them.
    std::int64_t steps_ns = 0, data_wait_ns = 0, checkpoint_wait_ns = 0, evaluation_wait_ns = 0, skipped_ns = 0;
    std::int64_t skipped = 0, tokens = 0, kept_tokens = 0;
    std::int64_t evaluated_step = -1;
    double evaluated_loss = 0;
    std::array<std::int64_t, kRecent> recent_ns{};
    std::array<std::int64_t, kStepBoundsMs.size() + 1> step_times{};
  };

  const Ticks ticks_;
  const Job job_;
  Totals totals_;                       // the ledger's own
  Cell<Totals> seen_;
};

}  // namespace troupe::trace
