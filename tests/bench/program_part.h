// A process of a measurement that is another build of this program: `PROGRAM bench part WHAT SOCKET RANK OPTIONS`, with a socket of packets to who asks.
//
// WHAT and what it answers: "train": a rank of a job (parallel_rank.h), OPTIONS as JSON; "messages": to "one" or "many" messages a second of two actors;
// "stuck": OPTIONS = {"actors", "job"}: a job of so many actors that all wait for the next one's credit; says "ready" once they do.
// Threads: as those parts. Errors: fatal; kInvalidArgument: a WHAT or OPTIONS that are none.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tests/bench/paced_job.h"

namespace troupe::bench {

std::string to_text(const PacedOptions& job);

// The rest of this forked process.
[[noreturn]] void become_part(const std::string& program, const std::string& what, int socket, int rank, const std::string& options);

struct PartArguments {
  std::string what, options;
  int socket = -1, rank = 0;
};
Status run_part(const PartArguments& arguments);

}  // namespace troupe::bench
