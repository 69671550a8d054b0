// A share of a processor that one process may have, by a control group of its own (cgroup v1 or v2).
//
// Threads: one. Owns: the group, which it empties and removes; a guard, a child that does nothing but wait for that, removes it when this
// process ends, however it does. Errors: kUnavailable where groups cannot be made, with what was tried.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/status.h"

namespace troupe::bench {

class CpuQuota {
 public:
  // `share` of one core from now on, in turns of kPeriodUs. `name`: of the group, this machine's only one.
  static StatusOr<CpuQuota> over(pid_t process, double share, const std::string& name);
  CpuQuota(CpuQuota&& other) noexcept;
  CpuQuota& operator=(CpuQuota&&) = delete;
  ~CpuQuota();

  static constexpr int kPeriodUs = 10'000;

 private:
  explicit CpuQuota(std::string folder);
  std::string folder_;
  int guard_ = -1;  // what the guard reads the end of
  pid_t guard_pid_ = -1;
};

}  // namespace troupe::bench
