// Runs the one binary as a user does: a child process with its output in files, so that it can be killed at any moment and read
// afterwards.
//
// Threads: one. Owns: the child; one that still runs at the end is killed. Errors: a child that does not end within the deadline
// fails the test that waits for it, and is killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

inline constexpr std::chrono::seconds kPatience{120};

// Asks again and again, at most a millisecond apart; false when the deadline passes.
bool wait_until(const std::function<bool()>& condition, std::chrono::nanoseconds deadline = kPatience);

std::string read_text(const std::string& path);  // empty if there is no such file

struct Ended {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out, err;

  bool killed() const { return signal != 0; }
};

// Sends the signal, and says so, if it is one process that is meant: 0 and below would be groups of them, or all.
bool signal_process(pid_t pid, int number);

// Of a process, as /proc tells: whether its first thread blocks the signal; whether one was sent to it that it has not taken.
bool is_blocked(pid_t pid, int number);
bool is_pending(pid_t pid, int number);

class ToolProcess {
 public:
  // The output goes to new files in `folder`.
  ToolProcess(const std::vector<std::string>& arguments, const std::string& folder);
  ~ToolProcess();
  ToolProcess(const ToolProcess&) = delete;
  ToolProcess& operator=(const ToolProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  bool running();
  const Ended& wait(std::chrono::nanoseconds deadline = kPatience);
  std::string out() const { return read_text(out_path_); }
  std::string err() const { return read_text(err_path_); }

 private:
  void note(int status);
  pid_t pid_ = -1;
  bool ended_ = false;
  Ended result_;
  std::string out_path_, err_path_;
};

// Starts the tool, waits for its end.
Ended run_tool(const std::vector<std::string>& arguments, const std::string& folder);

// Every file below a folder with its bytes, the run lock left out (it names who held it last); "" for a folder.
std::vector<std::pair<std::string, std::string>> contents_of(const std::string& folder);

}  // namespace troupe::test
