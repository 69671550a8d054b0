// Which rows of an answer are meant, and in which order: what `troupe inspect` filters and sorts by.
//
// Threads: any; pure. Errors: kInvalidArgument: a state that there is none of; kNotFound: no actor is called so; both with the nearest name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::tool {

// "waiting" stands for all that begin so. Of SCHEMA.md.
extern const std::vector<std::string> kStateNames;
// By which rows are sorted.
extern const std::vector<std::string> kTops;

// Rows of `actors` in one of the states: names of SCHEMA.md separated by commas, with - or _.
Status choose_states(nlohmann::json& actors, const std::string& states);
// Rows of actors, or of edges with such an actor at an end. `pattern`: NAME or RANK/NAME, with * for any letters and ? for one; what has
// neither may also be how names begin, where no name is just so.
Status choose_actors(nlohmann::json& rows, const std::string& pattern);

// From an earlier look at the same actors, seconds before; rows that have it already keep it.
void add_growth(nlohmann::json& actors, const nlohmann::json& earlier, double seconds);
// Those with the most first. `by`: depth, age (of the oldest message that waits), busy (time in handlers, ever) or growth (of the mailbox).
void sort_actors(nlohmann::json& actors, const std::string& by);

// "; did you mean 0/stage-1?" where one of these actors is called nearly so.
std::string nearest_actor(const nlohmann::json& actors, const std::string& name);

}  // namespace troupe::tool
