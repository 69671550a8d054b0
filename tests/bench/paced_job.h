// A training job that does a step when it is asked to: so that two jobs, or a job and a peer, can be measured in turns.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/inspect/inspector.h"
#include "actors/train/training_job.h"

namespace troupe::bench {

struct PacedOptions {
  std::string model = "gpt2-124m";
  std::vector<std::string> overrides;  // such as "model.layers=2"
  int batch = 4, seq_len = 512, threads = 2, stages = 1;
  std::string dtype = "bf16";
  int save_every = 0;              // 0: none
  int micro_batches = 1;           // of a step, over all replicas; each of `batch` sequences
  int replicas = 1, zero = 0;
  std::string balance;             // parallelism.balance; empty: its default
  std::string inspect_as;          // the job's id for who looks inside; empty: nobody can
  std::string folder;              // of all replicas, made by prepare_folder(); empty: one of this job's own
};

// A new temporary folder with the random tokens that `options` trains on; who asked for it removes it.
StatusOr<std::string> prepare_folder(const PacedOptions& options);
// What the job would be. kInvalidArgument where the trainer cannot do it.
struct PacedPlan {
  plan::JobConfig job;
  plan::Plan plan;
};
StatusOr<PacedPlan> plan_of(const PacedOptions& options);

// One rank of a job that trains on random tokens. Threads: one. Errors: those of the config, the plan and the machine's memory.
class PacedJob {
 public:
  // `transport`: to the other replicas, null where there are none; it outlives the job.
  static StatusOr<std::unique_ptr<PacedJob>> create(const PacedOptions& options, comm::Transport* transport = nullptr);
  ~PacedJob();

  // So many steps of the whole job, one after the other; the last one's report. Rank 0 only.
  actors::StepReport step(int count = 1);
  // Where there are other ranks, a thread must wait for how it ends: it fails when one of them does.
  Status wait() { return job_->wait(); }
  void request_stop() { job_->request_stop("the measurement is done"); }
  double tokens_per_step() const { return static_cast<double>(job_->plan().tokens_per_step()); }
  const plan::Plan& plan() const { return job_->plan(); }
  actors::JobSummary summary() const { return job_->summary(); }

 private:
  PacedJob() = default;
  Status start(PacedOptions options, comm::Transport* transport);

  std::string folder_;             // its own
  SteadyClock clock_;
  std::unique_ptr<actors::TrainingJob> job_;
  std::unique_ptr<actors::Inspector> inspector_;
  std::int64_t done_ = 0;
  std::mutex mutex_;               // guards what follows
  std::condition_variable reported_;
  std::optional<actors::StepReport> report_;
};

// The largest resident size of this process so far, in bytes.
std::int64_t peak_resident_bytes();

}  // namespace troupe::bench
