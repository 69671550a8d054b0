// Where a failure of a job began: a process, and what is to be said of it. Travels with a status, whatever that is reworded to on its way
// through actors, frames and processes, so that all of them blame the same one.
//
// Threads: any; pure. A status without a first cause began in the process that has it.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe {

struct FirstCause {
  Rank rank{-1};     // -1: none of the job's ranks (the launcher)
  std::string text;  // names the rank
};

// kUnavailable, with `text` as message and first cause.
Status due_to(Rank rank, const std::string& text);
std::optional<FirstCause> first_cause(const Status& status);
// `status` with another message: same code, same first cause.
Status reworded(const Status& status, const std::string& message);

}  // namespace troupe
