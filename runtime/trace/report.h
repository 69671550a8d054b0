// What a rank says of itself to whoever looks inside: its snapshot, and what belongs to the process as a whole. json.h
// carries it.
// Threads: plain values. Units: in the names; a *_ns is a time that has passed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/trace/snapshot.h"

namespace troupe::trace {

inline constexpr int kSchema = 1;  // SCHEMA.md

// A collective that this rank has entered and that is not done here.
struct CollectiveRow {
  std::string group;           // as the actor in front of it is called, the same on all members
  std::int64_t sequence = -1;  // tells it from the others of its group, the same on all members
  std::string what;
  std::int64_t since_ns = 0;          // how long ago this rank entered it
  std::vector<int> entered, missing;  // ranks, as far as is seen from here
  bool operator==(const CollectiveRow&) const = default;
};

struct StreamRow {
  std::string name;
  std::string kind;
  double busy_ratio = 0;
  std::int64_t busy_ns = 0;       // ever
  std::int64_t queued = 0;        // operations enqueued and not begun
  std::int64_t done = 0;          // operations ended, ever
  std::string running;            // the operation that runs now, empty if none
  std::int64_t running_ns = 0;    // since it began
  std::int64_t step_busy_ns = 0;  // the median of the last steps: working, not waiting; 0 before there is one
  bool operator==(const StreamRow&) const = default;
};

// Time that training did not use, by what it was lost to.
struct BadputRow {
  std::string type;
  std::int64_t spent_ns = 0;
  bool operator==(const BadputRow&) const = default;
};

// What training has come to; from the rank whose ledger closes its steps. "Here": by this process, since it began.
struct TrainingRow {
  std::int64_t step = 0, steps = 0;         // the last one that is closed, and where the run ends
  std::int64_t steps_here = 0;
  std::optional<double> loss, grad_norm;    // none: no step is closed here, or it was not finite
  std::optional<double> validation_loss;
  std::int64_t validation_step = -1;
  double learning_rate = 0;
  std::int64_t tokens = 0;                  // unmasked, of the run
  std::int64_t tokens_here = 0, effective_tokens = 0;
  double tokens_per_s = 0, mfu_ratio = 0;   // of the last step
  std::int64_t step_ns = 0, median_step_ns = 0, data_wait_ns = 0, checkpoint_wait_ns = 0;
  std::int64_t step_open_ns = 0;            // since the open step was opened
  std::int64_t wall_ns = 0, useful_ns = 0;
  double goodput_ratio = 0;
  std::vector<BadputRow> badput;            // adds up to wall - useful
  std::int64_t skipped_steps = 0, restarts = 0;
  std::int64_t steps_ns = 0;                // all closed steps
  HistogramRow step_times;
  bool operator==(const TrainingRow&) const = default;
};

struct RankReport {
  int rank = 0;
  std::string host;
  int pid = 0;
  double at_unix_s = 0;
  bool answered = true;
  std::string error;  // why there is no answer; of the rest such a report has rank, host and silent_s only
  std::int64_t restarts = -1;  // how often the process was started again, as its launcher says; -1: it says nothing
  std::int64_t memory_bytes = 0, memory_peak_bytes = 0;  // of the process: resident now, and at most
  Snapshot snapshot;
  std::vector<CollectiveRow> collectives;
  std::vector<StreamRow> streams;
  std::optional<TrainingRow> training;
  double silent_s = 0;  // since it was seen to go, or else since the first question that it left open
  std::int64_t after_ns = 0;  // from the question to this, by whoever asked; in no JSON
  bool operator==(const RankReport&) const = default;
};

}  // namespace troupe::trace
