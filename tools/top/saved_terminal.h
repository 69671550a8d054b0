// What a terminal was before it was drawn on, so that even a signal handler can give it back.
//
// Threads: one makes and destroys. give_back() by any, and by signal handlers: it allocates nothing and takes no lock.
// Owns: a copy of the terminal's settings; stderr, if that is the terminal, which it keeps apart. Limits: one at a time.
#pragma once

#include <termios.h>

#include <string>

namespace troupe::top {

class SavedTerminal {
 public:
  // `leave`: the bytes that end what is drawn.
  explicit SavedTerminal(std::string leave);
  ~SavedTerminal();
  SavedTerminal(const SavedTerminal&) = delete;
  SavedTerminal& operator=(const SavedTerminal&) = delete;

  // The settings of before.
  void give_back() const;
  // After that: stderr is what it was, and gets what was said meanwhile.
  void tell_what_was_said();

 private:
  friend void give_back_and_die(int);
  const std::string leave_;
  termios before_{};
  int stderr_ = -1, said_ = -1;  // the real one; a file in memory
};

}  // namespace troupe::top
