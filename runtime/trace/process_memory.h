// What this process has in memory, by the operating system. Threads: any; reads /proc, so no handler calls it. Errors: none: 0 where it does not say.
#pragma once

#include <cstdint>

namespace troupe::trace {

struct ProcessMemory {
  std::int64_t bytes = 0, peak_bytes = 0;  // resident, now and at most
};
ProcessMemory process_memory();

}  // namespace troupe::trace
