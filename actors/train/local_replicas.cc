#include "actors/train/local_replicas.h"

#include <algorithm>
#include <thread>

#include "runtime/base/first_cause.h"

namespace troupe::actors {

StatusOr<std::unique_ptr<LocalReplicas>> LocalReplicas::create(const plan::JobConfig& job, const plan::Plan& plan, const World& world,
                                                               const JobOptions& options,
                                                               const std::vector<comm::Transport*>& transports) {
  auto made = std::make_unique<LocalReplicas>();
  for (std::size_t i = 0; i < std::max<std::size_t>(1, transports.size()); ++i) {
    World own = world;
    if (!transports.empty()) own.transport = transports[i];
    TROUPE_ASSIGN_OR_RETURN(auto replica, TrainingJob::create(job, plan, own, options));
    made->jobs_.push_back(std::move(replica));
  }
  return made;
}

void LocalReplicas::start() {
  for (const auto& job : jobs_) job->start();
}

Status LocalReplicas::wait() {
  std::vector<Status> ends(jobs_.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    threads.emplace_back([&, i] { ends[i] = jobs_[i]->wait(); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& end : ends) {
    // What has a first cause elsewhere follows from what that one says itself.
    if (!end.ok() && !first_cause(end)) return end;
  }
  const auto failed = std::find_if(ends.begin(), ends.end(), [](const Status& end) { return !end.ok(); });
  return failed == ends.end() ? ok() : *failed;
}

Status LocalReplicas::run() {
  start();
  return wait();
}

}  // namespace troupe::actors
