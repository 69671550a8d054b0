// The ranks of a job that are in this process: a TrainingJob for each, joined by the transports given.
//
// Each rank has the plan's threads and its own memory, streams and actors, as it would in a process of its own.
// Threads, errors: as TrainingJob. The transports outlive it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/train/training_job.h"

namespace troupe::actors {

class LocalReplicas {
 public:
  // `transports` of the ranks here, by rank; none: a job of one rank.
  static StatusOr<std::unique_ptr<LocalReplicas>> create(const plan::JobConfig& job, const plan::Plan& plan, const World& world,
                                                         const JobOptions& options, const std::vector<comm::Transport*>& transports);
  void start();
  // The first failure of any.
  Status wait();
  Status run();
  // Any stops all of the job; each ends the pauses of its own.
  void request_stop(const std::string& reason) {
    for (const auto& job : jobs_) job->request_stop(reason);
  }
  std::span<const std::unique_ptr<TrainingJob>> jobs() const { return jobs_; }

 private:
  std::vector<std::unique_ptr<TrainingJob>> jobs_;
};

}  // namespace troupe::actors
