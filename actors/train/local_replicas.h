// A job of several ranks in this one process: a TrainingJob for each, joined by the transports given.
//
// Each rank has the plan's threads and its own memory, streams and actors, as it would in a process of its own.
// Threads, errors: as TrainingJob. The transports outlive it.
#pragma once

#include <memory>
#include <vector>

#include "actors/train/training_job.h"

namespace troupe::actors {

class LocalReplicas {
 public:
  // `transports` by rank, as many as the plan has processes.
  static StatusOr<std::unique_ptr<LocalReplicas>> create(const plan::JobConfig& job, const plan::Plan& plan, const World& world,
                                                         const JobOptions& options, const std::vector<comm::Transport*>& transports);
  // The first failure of any.
  Status run();
  void request_stop(const std::string& reason) { jobs_.front()->request_stop(reason); }
  TrainingJob& leader() { return *jobs_.front(); }

 private:
  std::vector<std::unique_ptr<TrainingJob>> jobs_;
};

}  // namespace troupe::actors
