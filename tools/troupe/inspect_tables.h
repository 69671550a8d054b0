// The inspector's answers (actors/inspect/README.md) as text for people.
// Threads: any; pure. Errors: none: what an answer of another version lacks is shown as nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/troupe/actor_lines.h"

namespace troupe::tool {

std::string actors_text(const ActorLines& lines, bool with_growth = false);
std::string inspect_text(const std::string& view, const nlohmann::json& answer);

}  // namespace troupe::tool
