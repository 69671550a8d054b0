// How far two names are apart, to suggest what a mistyped one meant.
#pragma once

#include <string_view>

namespace troupe {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
// alignment).
int edit_distance(std::string_view a, std::string_view b);

// Close enough that a person would call it a typing slip: one slip per three letters, at least one.
bool is_near(std::string_view a, std::string_view b);

}  // namespace troupe
