// The running jobs of this user that have a process on this machine, and how one of them is asked.
// Threads: any. Errors: kNotFound, kInvalidArgument: which jobs there are instead; kUnavailable: none of a job's processes answers.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "actors/inspect/runtime_folder.h"

namespace troupe::tool {

struct RunningJob {
  std::vector<actors::JobCard> here;  // its processes on this machine, by rank; at least one
  const actors::JobCard& card() const { return here.front(); }
};

StatusOr<std::vector<RunningJob>> running_jobs();
// `id`: how a job's id begins; empty: the only job that runs.
StatusOr<RunningJob> running_job(const std::string& id);
// Whichever of its processes is able to answer.
StatusOr<std::string> ask(const RunningJob& job, const std::string& target, std::chrono::nanoseconds patience);
// A word for a query: all but letters and digits encoded, so that it does not matter who decodes what.
std::string in_query(const std::string& text);

}  // namespace troupe::tool
