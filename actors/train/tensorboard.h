// A run's TensorBoard file: the metrics of each step under the names that torchtitan has for them, so that runs of both lie over each other.
//
//   loss_metrics/global_avg_loss  grad_norm  lr  n_tokens_seen     as in metrics.jsonl: loss, grad_norm, lr, tokens
//   throughput(tps)               tokens_per_s / ranks             mfu(%)  100 * mfu
//   time_metrics/end_to_end(s)    step_s                           time_metrics/data_loading(s), (%)  data_wait_s, and of step_s
//   memory/resident(GiB), memory/max_resident(GiB)                 of rank 0's process
//   validation_metrics/loss       where it was measured
// Threads: one, which may block. Owns: its file, a new one for each process. Errors: those of files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/device/storage.h"

namespace troupe::actors {

struct MetricsLine;

class Tensorboard {
 public:
  // `after`: the step that the run goes on from, 0: it is new.
  Tensorboard(std::string folder, int ranks, StepId after) : folder_(std::move(folder)), ranks_(ranks), after_(after) {}
  Status write(const MetricsLine& line);

 private:
  Status open(double unix_s);

  const std::string folder_;
  const int ranks_;
  const StepId after_;
  std::optional<device::FileWriter> file_;
};

}  // namespace troupe::actors
