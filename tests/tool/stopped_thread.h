// One thread of another process stands still while the others run on: a disk, a loader, a device that hangs.
#pragma once

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/tool/tool_process.h"

namespace troupe::test {

// One that has given itself that name; -1: there is none.
inline pid_t thread_called(pid_t process, const std::string& name) {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", error)) {
    if (read_text(task.path().string() + "/comm") == name + "\n") return static_cast<pid_t>(std::stol(task.path().filename().string()));
  }
  return -1;
}

// Runs on when this is destroyed, by the thread that made it. The process must not end before.
class StoppedThread {
 public:
  explicit StoppedThread(pid_t thread) : thread_(thread) {
    stands_ = thread_ > 0 && ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0 && ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 &&
              waitpid(thread_, nullptr, __WALL) == thread_;
  }
  ~StoppedThread() {
    if (stands_) ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;
  bool stands() const { return stands_; }

 private:
  const pid_t thread_;
  bool stands_;
};

}  // namespace troupe::test
