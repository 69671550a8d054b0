// What people and files are told of each step: OUT/metrics.jsonl, TensorBoard's file where it is asked for, and a line or a progress bar on the terminal.
//
// Acts:  StepClosed -> a line of metrics.jsonl on the metrics stream, flushed -> StepWritten; the console on the terminal's stream, which nobody
//        waits for. In step order.
// Owns: the metrics file. Fails: never; a full disk is said once and the run goes on.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <optional>

#include "actors/plan/plan.h"
#include "actors/protocol.h"
#include "actors/train/tensorboard.h"
#include "runtime/actor/actor.h"
#include "runtime/device/storage.h"

namespace troupe::actors {

// One line of metrics.jsonl, without the newline. Floats as %.9g, so that they read back to the same float; what is not finite is null.
//   loss          mean over the step's unmasked tokens      tokens        unmasked tokens of the run so far
//   tokens_per_s  global_batch * seq_len / step_s           mfu           flops of a step / ranks / step_s / peak
//   step_s        open to closed                            data_wait_s   a stage had room and no batch was read
//   sample_hash   the sum of the step's sample ids' hashes: two runs that read the same have the same, on any number of replicas
//   assigned      where replicas pull: for each, the micro-batches it computed, by index in the step, in its order; what can be replayed
//   checkpoint_wait_s  the compute stream stood waiting for a snapshot to be copied
struct MetricsLine {
  StepReport report;
  std::int64_t tokens = 0;
  double tokens_per_s = 0, mfu = 0;

  std::string to_json() const;
};

// Keeps the lines of metrics.jsonl up to `last`, durably; no file is fine. A resume calls it with its checkpoint's step.
Status cut_metrics(const std::string& path, StepId last);

class Reporter : public actor::Actor {
 public:
  enum class Console { kNone, kLines, kBar };
  struct Setup {
    const plan::Plan& plan;
    std::string metrics_path;
    device::Stream& metrics, &terminal;  // may block
    std::int64_t tokens = 0;       // of the run before
    std::int64_t steps = 0;        // where the run ends
    double peak_flops_per_s = 0;   // what mfu is a share of
    std::string tensorboard{};     // the folder of its files; empty: none
    StepId after{0};               // the step that the run goes on from
    Console console = Console::kLines;
    std::int64_t log_every = 1;
    std::function<void(const StepReport&)> on_step;
  };
  explicit Reporter(Setup setup);
  ~Reporter() override;
  void connect_to(actor::Ref ledger) { ledger_ = std::move(ledger); }

 private:
  struct LineWritten {};
  void started() override { metrics_name_ = name_for("metrics"); }
  void closed(StepClosed message);
  void line_written(LineWritten message);
  void show(const MetricsLine& line);
  std::string console_text(const MetricsLine& line) const;
  // On the metrics stream.
  void write(const MetricsLine& line);
  Status write_line(const std::string& line);

  const Setup setup_;
  actor::Ref ledger_;
  std::optional<device::FileWriter> file_;  // touched on the metrics stream only, as are tensorboard_ and what was complained of
  std::optional<Tensorboard> tensorboard_;
  std::int64_t tokens_;
  std::atomic<int> unshown_ = 0;            // steps, on the terminal's stream
  double recent_step_s_ = 0;                // moving average, for the time left
  bool complained_ = false, complained_of_tensorboard_ = false;
  int unwritten_ = 0;                       // lines, on the metrics stream
  trace::Name metrics_name_;
};

}  // namespace troupe::actors
