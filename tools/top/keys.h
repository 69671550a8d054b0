// What a keyboard says: a character by its byte, the rest by these.
#pragma once

namespace troupe::top {

enum Key : int { kEscape = 27, kEnter = 1000, kBackspace, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd, kNone };

}  // namespace troupe::top
