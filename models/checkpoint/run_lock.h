// One run per output folder: an exclusive flock(2) on OUT/.lock, which holds "pid P on HOST".
//
// The kernel drops the lock with the process, however it dies; the file stays. On NFS it holds between hosts
// only where the mount supports locks. Threads: one. Errors: kFailedPrecondition names the process that has
// the folder; else of the disk.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace troupe::checkpoint {

class RunLock {
 public:
  static StatusOr<RunLock> take(const std::string& out);  // makes OUT if there is none
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace troupe::checkpoint
