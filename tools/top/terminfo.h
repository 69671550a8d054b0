// What is known of the terminal before it is drawn on. Threads: one.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace troupe::top {

// kFailedPrecondition: no terminal, or one on which nothing can be placed.
Status usable_terminal();
Status no_terminal(const std::string& why);  // the same error, for another reason
// What ends the drawing, for where ncurses can no longer be called; after usable_terminal().
std::string leave_bytes();

}  // namespace troupe::top
