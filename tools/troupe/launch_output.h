// What ranks write, line by line: whole lines with the rank before them, no two mixed.
// Threads: one at a time.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace troupe::tool {

inline constexpr std::size_t kLineBytesMost = 64 << 10;  // a longer one is cut

// Bytes to lines, without their ends. A line's begin waits here for its end.
class LineCutter {
 public:
  void add(std::string_view bytes, absl::FunctionRef<void(std::string_view line)> on_line);
  void end(absl::FunctionRef<void(std::string_view line)> on_line);  // gives out what has no end

 private:
  std::string begun_;
};

// The newest lines.
class Tail {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

// Our stdout or stderr (or an agent's): takes everything at once and writes when the reader takes it, so that a slow one holds
// back the ranks and not the launcher. A reader that has gone is no error: a job does not die with its terminal.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  void write(std::string_view bytes);
  void line(std::string_view prefix, std::string_view text);
  bool has_room() const;
  bool pending() const { return !pending_.empty(); }
  int descriptor() const { return fd_; }
  void flush();  // what it takes without waiting
  void flush_within(int timeout_ms);

 private:
  int fd_;
  std::string pending_;
  std::size_t written_ = 0;
  bool broken_ = false;
};

}  // namespace troupe::tool
