// A share of a processor that one process may have, by a control group of its own (cgroup v1 or v2).
//
// Threads: one. Owns: the group, which it empties and removes, or its guard does when this process ends. Errors: kUnavailable where groups cannot be made, with what was tried.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "tests/bench/outliving_guard.h"

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
  CpuQuota(std::string folder, OutlivingGuard guard) : folder_(std::move(folder)), guard_(std::move(guard)) {}
  std::string folder_;
  OutlivingGuard guard_;
};

}  // namespace troupe::bench
