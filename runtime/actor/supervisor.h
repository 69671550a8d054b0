// The one supervisor of a System: hears of every actor that ends, keeps who failed in which order, stops the
// job at the first failure, and says the outcome to the thread in System::wait.
//
// Acts:  ActorEnded -> outcome, StopNow to all others;  JobFinished -> StopRequested to all.
// Invariant: the outcome names the first actor that failed, and then the others in order
// (SupervisorTest.NamesTheFirstFailure).
#pragma once

#include "runtime/actor/system_core.h"

namespace troupe::actor {

// From an actor's host, when it has ended and before anybody else hears of it.
struct ActorEnded {
  Ref actor;
};
// From Actor::finish_job.
struct JobFinished {
  Status result;
};

class Supervisor final : public Actor {
 public:
  explicit Supervisor(detail::SystemCore& core);

 private:
  void ended(const ActorEnded& message);
  void finished(const JobFinished& message);

  detail::SystemCore& core_;
  std::string failures_;  // "actor 'a' failed: ...; then 'b' failed: ..."
  Status first_;
};

}  // namespace troupe::actor
