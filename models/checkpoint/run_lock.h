// One run per output folder: an exclusive flock(2) on OUT/.lock, which holds "pid P on HOST" and a token of this run.
//
// The kernel drops the lock with the process, however it dies; the file stays. On NFS it holds between hosts
// only where the mount supports locks. By the token the other processes of a job see whether they have the same folder.
// Threads: one. Errors: kFailedPrecondition names the process that has the folder; else of the disk.
#pragma once

#include <chrono>
#include <string>

#include "runtime/base/status.h"

namespace troupe::checkpoint {

class RunLock {
 public:
  static StatusOr<RunLock> take(const std::string& out);  // makes OUT if there is none
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

  const std::string& token() const { return token_; }  // 128 random bits, for find_run_lock elsewhere

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
  std::string token_;
};

// Ok if the lock with this token lies in OUT as this process sees it. Looks again until `patience` ends, since a network file system may
// show late what another host wrote. kFailedPrecondition says what lies there instead.
Status find_run_lock(const std::string& out, const std::string& token, std::chrono::nanoseconds patience);

}  // namespace troupe::checkpoint
