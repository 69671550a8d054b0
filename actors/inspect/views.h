// Answers made of the ranks' reports, as JSON. `reports`: the text of each rank's (runtime/trace/json.h), of those that did not answer, too.
// Threads: any; pure. Errors: kNotFound, kInvalidArgument: an actor that is not there, or a name that several ranks have.
#pragma once

#include <span>
#include <string>

#include "actors/inspect/runtime_folder.h"
#include "runtime/base/status.h"

namespace troupe::actors {

using Reports = std::span<const std::string>;

std::string job_view(const JobCard& card, Reports reports);
std::string ranks_view(const std::string& job, Reports reports);
// `what`: actors, edges or collectives.
std::string rows_view(const std::string& job, const std::string& what, Reports reports);
// `actor`: "<rank>/<name>" or "<name>".
StatusOr<std::string> mailbox_view(const std::string& job, const std::string& actor, Reports reports);
std::string waits_view(Reports reports);

}  // namespace troupe::actors
