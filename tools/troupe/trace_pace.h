// How often `troupe trace` looks at the rings of a job's ranks: so that none is more than half new at a look, and no oftener than that asks for.
// Threads: one. Invariants: TracePace.*.
#pragma once

#include <algorithm>
#include <chrono>

namespace troupe::tool {

class TracePace {
 public:
  static constexpr std::chrono::milliseconds kOften{5}, kSeldom{100};

  // After a look at which that share of the fullest ring was new: how long to wait before the next.
  std::chrono::milliseconds next(double fullest) {
    if (fullest > 0.5) pause_ = std::max(kOften, pause_ / 2);
    if (fullest < 0.25) pause_ = std::min(kSeldom, pause_ + std::chrono::milliseconds(5));
    return pause_;
  }

 private:
  std::chrono::milliseconds pause_ = 4 * kOften;
};

}  // namespace troupe::tool
