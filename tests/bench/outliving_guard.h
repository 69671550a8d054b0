// Cleans up what the kernel keeps when this process ends, however it does: a child that does nothing but wait for that.
//
// Threads: one. Owns: the child, which ignores what a terminal sends. Errors: kUnavailable where there can be no child.
#pragma once

#include <sys/types.h>

#include <functional>

#include "runtime/base/status.h"

namespace troupe::bench {

class OutlivingGuard {
 public:
  // `clean` runs in the child, once: when the guard is destroyed or this process is gone. It sees what there was at the start.
  static StatusOr<OutlivingGuard> start(const std::function<void()>& clean);
  OutlivingGuard(OutlivingGuard&& other) noexcept;
  OutlivingGuard& operator=(OutlivingGuard&&) = delete;
  ~OutlivingGuard();  // returns when all is clean

 private:
  OutlivingGuard(int end, pid_t child) : end_(end), child_(child) {}
  int end_;       // what the child reads the end of
  pid_t child_;
};

}  // namespace troupe::bench
