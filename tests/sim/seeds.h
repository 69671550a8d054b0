// How many seeds a test runs: as many as it says, or TROUPE_SIM_SEEDS if that is more.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "runtime/base/sanitizer.h"

namespace troupe::test {

inline std::uint64_t seeds(std::uint64_t usual, std::uint64_t sanitized) {
  const char* text = std::getenv("TROUPE_SIM_SEEDS");
  const std::uint64_t asked = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  const std::uint64_t least = kSanitized ? sanitized : usual;
  return asked > least ? asked : least;
}

}  // namespace troupe::test
