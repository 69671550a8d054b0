// What a mistyped word may have meant, as the end of an error.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/edit_distance.h"

namespace troupe::tool {

// "; did you mean launch?" where one of the names is near; else nothing.
inline std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const auto nearest = std::ranges::min_element(names, {}, [&](const std::string& name) { return edit_distance(word, name); });
  return nearest != names.end() && is_near(word, *nearest) ? absl::StrCat("; did you mean ", *nearest, "?") : "";
}

}  // namespace troupe::tool
