// A snapshot as tables for people: actors with what they do and wait for, edges with their credits.
// Threads: any; pure. Errors: none. Units: seconds; mailboxes and credits are counted.
#pragma once

#include <string>

#include "runtime/trace/snapshot.h"

namespace troupe::trace {

std::string to_text(const Snapshot& snapshot);

}  // namespace troupe::trace
