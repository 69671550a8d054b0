// A program as a child of this process, with what it says on its output.
// Threads: one. Owns: the child, which gets SIGTERM and after kEndPatience SIGKILL when this is destroyed; it dies with this process.
// Errors: kUnavailable: no such program, no pipe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::bench {

class ChildProgram {
 public:
  static constexpr std::chrono::seconds kEndPatience{10};

  // Its output and its errors go to files of its own that go with this.
  static StatusOr<ChildProgram> start(const std::vector<std::string>& words);
  ChildProgram(ChildProgram&& other) noexcept : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)), err_(std::exchange(other.err_, -1)) {}
  ChildProgram& operator=(ChildProgram&&) = delete;
  ~ChildProgram();

  int wait();  // its exit code, or 128 + the signal that ended it
  std::string out() const;  // so far
  std::string err() const;

 private:
  ChildProgram() = default;
  int pid_ = -1, out_ = -1, err_ = -1;
};

struct ProgramEnd {
  int exit_code = 0;
  double took_s = 0;
  std::string out, err;
};
StatusOr<ProgramEnd> run_program(const std::vector<std::string>& words);

}  // namespace troupe::bench
