#include "runtime/trace/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace troupe::trace {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream file("/proc/self/statm");
  std::int64_t all_pages = 0, resident_pages = 0;
  if (file >> all_pages >> resident_pages) memory.bytes = resident_pages * sysconf(_SC_PAGESIZE);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) memory.peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  memory.peak_bytes = std::max(memory.bytes, memory.peak_bytes);
  return memory;
}

}  // namespace troupe::trace
