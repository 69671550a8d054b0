// A whole terminal as lines, through ncurses, which no other file sees; and as it was before, however this ends.
//
// While this is open, signals of the terminal and those that ask a process to end come as events: whoever gets kOver closes this and ends.
// Ctrl-Z stops the process with the terminal as it was, and fg brings the picture back. What is written to stderr meanwhile, if that is the
// terminal, comes after the end. A crash (abort, so a failed check or an exception that nobody takes; a bad access) gives the terminal back, too,
// before the process dies of it.
//
// Threads: one opens, uses and closes it, before others start: it blocks the signals. Owns: the terminal, the signal mask.
// Errors: kFailedPrecondition: no terminal, or one on which nothing can be placed. Limits: one at a time.
// Invariants: the terminal is as it was after each way of ending (TopTerminal.IsAsItWasAfterEachWayOfEnding, TopTerminal.IsAsItWasAfterABreakdown).
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "tools/top/model.h"

namespace troupe::top {

struct Event {
  enum Kind { kNothing, kKey, kResized, kWoken, kOver } kind = kNothing;
  int number = 0;  // a key, never kNone, or the signal that ends; 0: the terminal has gone
};

class Screen {
 public:
  static StatusOr<std::unique_ptr<Screen>> open();
  ~Screen();

  Size size() const;
  void show(const std::vector<Line>& lines);
  // Whichever comes first. `waker`: a descriptor that becomes readable.
  Event wait(std::chrono::milliseconds patience, int waker);

 private:
  struct Parts;
  explicit Screen(std::unique_ptr<Parts> parts);
  Event signalled();
  void stop();
  const std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::top
