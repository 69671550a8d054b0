#include "tools/top/terminfo.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
// Last: they take short names as macros.
#include <curses.h>
#include <term.h>

namespace troupe::top {
namespace {

std::string terminal_name() {
  const char* name = std::getenv("TERM");
  return name == nullptr ? "" : name;
}

}  // namespace

Status no_terminal(const std::string& why) { return absl::FailedPreconditionError(absl::StrCat("top: ", why, ". Elsewhere: troupe inspect actors, troupe inspect waits")); }

Status usable_terminal() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return no_terminal("a whole screen needs a terminal, and standard input or output is none");
  const std::string name = terminal_name();
  int found = 0;
  if (name.empty() || setupterm(nullptr, STDOUT_FILENO, &found) != OK)
    return no_terminal(absl::StrCat("nothing is known of the terminal TERM=", name, "; is another name right, such as TERM=xterm?"));
  if (cursor_address == nullptr || clear_screen == nullptr)
    return no_terminal(absl::StrCat("a terminal TERM=", name, " cannot place text; is another name right, such as TERM=xterm?"));
  return ok();
}

std::string leave_bytes() {
  static std::string* bytes = nullptr;  // tputs takes a function without a context
  std::string all;
  bytes = &all;
  for (const char* text : {exit_attribute_mode, orig_pair, keypad_local, cursor_normal, exit_ca_mode}) {
    if (text != nullptr) tputs(text, 1, [](int byte) { return bytes->push_back(static_cast<char>(byte)), byte; });
  }
  bytes = nullptr;
  return all;
}

}  // namespace troupe::top
