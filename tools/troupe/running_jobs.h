// The running jobs of this user that have a process on this machine, and how one of them is asked.
// Threads: any. Errors: kNotFound, kInvalidArgument: which jobs there are instead; kUnavailable: none of a job's processes answers;
// those of actors::read_token.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "actors/inspect/http.h"
#include "actors/inspect/runtime_folder.h"

namespace troupe::tool {

struct RunningJob {
  std::vector<actors::JobCard> here;  // its processes on this machine, by rank; at least one
  const actors::JobCard& card() const { return here.front(); }
};

StatusOr<std::vector<RunningJob>> running_jobs();
// `id`: how a job's id begins; empty: the only job that runs.
StatusOr<RunningJob> running_job(const std::string& id);
// How a job is reached: one that has a process here, or whatever answers at an address.
struct ContactArguments {
  std::string job;         // as above
  std::string connect;     // HOST:PORT
  std::string token_file;  // empty: for a job that has a process here, the one beside its card
};
// Whichever of its processes is able to answer. The token is that of --token-file, if it was given.
StatusOr<actors::HttpPlace> contact(const ContactArguments& arguments);
StatusOr<actors::HttpPlace> contact_with_token(const ContactArguments& arguments);
// Whichever of its processes is able to answer.
StatusOr<std::string> ask(const RunningJob& job, const std::string& target, std::chrono::nanoseconds patience);

}  // namespace troupe::tool
