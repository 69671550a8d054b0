#include "runtime/base/clock.h"

#include <chrono>

namespace troupe {

std::int64_t SteadyClock::now_ns() const {
  using std::chrono::duration_cast, std::chrono::nanoseconds, std::chrono::steady_clock;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace troupe
