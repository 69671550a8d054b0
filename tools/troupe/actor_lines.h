// What a table shows of each actor, from an answer of /v1/actors: of its text at once, since a tree of values between takes half of the time
// that `troupe inspect actors` has for 10,000 of them.
//
// Threads: any; pure. Errors: kDataLoss: the text is no JSON object. What an answer of another version lacks is 0 or empty.
// Invariants: both ways give the same (ActorLines.TheTextGivesWhatTheTreeGives).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::tool {

struct ActorLine {
  double rank = 0, number = -1, since_s = 0, depth = 0, depth_max = 0, oldest_s = 0, handled = 0, handling_s = 0, growth_per_s = 0;
  std::string name, state, detail, from;
  bool operator==(const ActorLine&) const = default;
};
struct SilentRank {
  double rank = 0, silent_s = 0;
  std::string error;
  bool operator==(const SilentRank&) const = default;
};
struct ActorLines {
  std::vector<ActorLine> actors;
  std::vector<SilentRank> unanswered;
  bool operator==(const ActorLines&) const = default;
};

StatusOr<ActorLines> actor_lines(const std::string& text);
ActorLines actor_lines(const nlohmann::json& answer);

}  // namespace troupe::tool
