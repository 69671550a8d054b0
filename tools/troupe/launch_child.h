// A child process of the launcher or an agent: its start, its pipes, its end, and the guard that outlives who started it.
//
// Threads: one, which polls. Owns: nothing by itself but the guard its process; a Child is its owner's to reap.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::tool {

inline constexpr int kNotFound = 127, kNotExecutable = 126;  // a shell's codes for a program that cannot be started

struct Ending {
  int code = 0;    // of exit, if signal is 0
  int signal = 0;
  std::string last_state{};  // what it had written down of itself (runtime/trace/state_file.h); the first line says when
  bool failed() const { return code != 0 || signal != 0; }
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  std::string text() const;  // "exited with code 3", "died of signal 9 (SIGKILL)"
};

// The soft limit of open files becomes the hard one, for this process; children get back what there was. kFailedPrecondition if that is
// less than `needed`.
Status raise_open_files(int needed);

// When its parent has gone: kills the process groups it was told of and what carries its mark (launch_leftovers.h), then clears the
// folder in which they had shared memory. Who makes it becomes the parent of orphans below it. Start it before any thread.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  int descriptor() const { return fd_; }
  // In memory; what a rank that is killed leaves in it goes with the guard. Empty where none could be made.
  const std::string& folder() const { return folder_; }
  const std::string& mark() const { return mark_; }
  void forget(pid_t group) const;
  static void watch(int guard_fd, pid_t group);  // async-signal-safe

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string folder_, mark_;
};

// A child in a group of its own, with pipes.
struct Child {
  pid_t pid = -1;
  int in = -1, out = -1, err = -1;  // non-blocking; in: only if asked for
  bool running() const { return pid > 0; }
};
struct ChildStart {
  std::vector<std::string> program;
  std::vector<std::string> variables;  // in place of ours of the same name; the last of a name counts
  bool with_stdin = false;
};
// kNotFound or kPermissionDenied if the program cannot be started, kResourceExhausted if there are no pipes for it.
StatusOr<Child> start_child(const ChildStart& start, const Guard& guard);
// True if it has ended; then its group is dead, too, and it is reaped.
bool reap_child(Child& child, const Guard& guard, Ending& ending);
void kill_group(const Child& child, int signal);
void close_one(int& fd);  // and makes it -1
// Some bytes of a non-blocking descriptor; closes it (and makes it -1) at its end. False if there was nothing.
bool read_some(int& fd, std::string& bytes);

}  // namespace troupe::tool
