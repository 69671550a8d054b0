#include "actors/train/local_replicas.h"

#include <algorithm>
#include <thread>

#include "runtime/base/first_cause.h"

namespace troupe::actors {

StatusOr<std::unique_ptr<LocalReplicas>> LocalReplicas::create(const plan::JobConfig& job, const plan::Plan& plan, const World& world,
                                                               const JobOptions& options,
                                                               const std::vector<comm::Transport*>& transports) {
  auto made = std::make_unique<LocalReplicas>();
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    World own = world;
    own.transport = transports[rank];
    TROUPE_ASSIGN_OR_RETURN(auto replica, TrainingJob::create(job, plan, own, options));
    made->jobs_.push_back(std::move(replica));
  }
  return made;
}

Status LocalReplicas::run() {
  std::vector<Status> ends(jobs_.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < jobs_.size(); ++rank) {
    threads.emplace_back([&, rank] { ends[rank] = jobs_[rank]->run(); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& end : ends) {
    // What has a first cause elsewhere follows from what that one says itself.
    if (!end.ok() && !first_cause(end)) return end;
  }
  const auto failed = std::find_if(ends.begin(), ends.end(), [](const Status& end) { return !end.ok(); });
  return failed == ends.end() ? ok() : *failed;
}

}  // namespace troupe::actors
