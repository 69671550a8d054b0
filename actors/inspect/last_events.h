// The last of an actor's events, out of what its rank answers to `peek` (rank_answers.cc).
// Threads: any; pure. Units: of an event, `at_ns` is its age. Errors: what is no such answer has no events.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/trace/snapshot.h"

namespace troupe::actors {

inline constexpr std::size_t kLastEvents = 8;

// The oldest first, kLastEvents at most.
std::vector<trace::EventRow> last_events_of(std::string_view peeked);

}  // namespace troupe::actors
