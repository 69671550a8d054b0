// JSON from files nobody vouches for: strict, bounded, never throwing. Included by .cc files of this folder
// only.
//
// Errors: kInvalidArgument with what is wrong and, for syntax, where; the caller puts the file's name before
// it. Limits: depth 16, far beyond what our formats nest, so that hostile nesting costs nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace troupe::checkpoint {

bool is_utf8(std::string_view text);

// Refuses a key given twice, which the library itself would let pass.
StatusOr<nlohmann::json> parse_json(std::string_view text);
// indent < 0: one line. Fails where a string is not UTF-8.
StatusOr<std::string> dump_json(const nlohmann::json& value, int indent = -1);
// `text` quoted and escaped; it must be UTF-8.
std::string in_quotes(const std::string& text);

}  // namespace troupe::checkpoint
