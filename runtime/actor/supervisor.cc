#include "runtime/actor/supervisor.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/first_cause.h"

namespace troupe::actor {

Supervisor::Supervisor(detail::SystemCore& core) : core_(core) {
  on(&Supervisor::ended);
  on(&Supervisor::finished);
}

void Supervisor::ended(const ActorEnded& message) {
  const detail::Cell& cell = message.actor.cell();
  const bool failed = !cell.cause.ok();
  const bool first = failed && first_.ok();
  if (failed) {
    const std::string cause(cell.cause.message());
    if (first) {
      first_ = cell.cause;
      failures_ = absl::StrCat("actor '", cell.name(), "' failed: ", cause);
    } else {
      absl::StrAppend(&failures_, "; then '", cell.name(), "' failed: ", cause);
    }
    if (cell.chain.size() > 1)
      absl::StrAppend(&failures_, " (chain: ", absl::StrJoin(cell.chain, " -> "), ")");
  }
  if (first && core_.options.stop_on_failure) core_.ask_all_to_stop(true);
  std::lock_guard lock(core_.outcome.mutex);
  --core_.outcome.alive;
  if (failed) {
    core_.outcome.failed = true;
    core_.outcome.result = reworded(first_, failures_);
  }
  core_.outcome.changed.notify_all();
}

void Supervisor::finished(const JobFinished& message) {
  {
    std::lock_guard lock(core_.outcome.mutex);
    if (!core_.outcome.failed) core_.outcome.result = message.result;
  }
  core_.ask_all_to_stop(false);
}

}  // namespace troupe::actor
