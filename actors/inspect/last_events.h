// The last of an actor's ring of events, as one rank gives them to another.
// Threads: any; no actor is asked. Units: of an event, `at_ns` is its age. Errors: what is no list of events is an empty one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/registry.h"

namespace troupe::actors {

inline constexpr std::size_t kLastEvents = 8;

// [] where no living actor is called so.
std::string last_events_json(const trace::ProbeRegistry& probes, const std::string& actor);
std::vector<trace::EventRow> last_events_from_json(std::string_view text);

}  // namespace troupe::actors
