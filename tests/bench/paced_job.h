// A training job that does a step when it is asked to: so that two jobs, or a job and a peer, can be measured in turns.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/train/training_job.h"

namespace troupe::bench {

struct PacedOptions {
  std::string model = "gpt2-124m";
  int batch = 4, seq_len = 512, threads = 2, stages = 1;
  std::string dtype = "bf16";
  int save_every = 0;              // 0: none
};

// Trains on random tokens in a temporary folder. Threads: one. Errors: those of the config, the plan and the machine's memory.
class PacedJob {
 public:
  static StatusOr<std::unique_ptr<PacedJob>> create(const PacedOptions& options);
  ~PacedJob();

  // One step of one micro-batch; its report.
  actors::StepReport step();
  double tokens_per_step() const { return static_cast<double>(job_->plan().tokens_per_step()); }
  const plan::Plan& plan() const { return job_->plan(); }
  actors::JobSummary summary() const { return job_->summary(); }

 private:
  PacedJob() = default;
  Status start(const PacedOptions& options);

  std::string folder_;
  SteadyClock clock_;
  std::unique_ptr<actors::TrainingJob> job_;
  std::int64_t done_ = 0;
  std::mutex mutex_;               // guards what follows
  std::condition_variable reported_;
  std::optional<actors::StepReport> report_;
};

// The largest resident size of this process so far, in bytes.
std::int64_t peak_resident_bytes();
double median(std::vector<double> values);
// Half the distance between the quartiles, over the median: how far pairs lie apart.
double spread(std::vector<double> values);

}  // namespace troupe::bench
