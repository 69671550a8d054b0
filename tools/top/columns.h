// Rows of cells in lines of a given width: what matters least gives way first.
// Threads: any; pure. Units: widths in characters (code points of UTF-8). Invariants: no line is wider (Columns.NeverWiderThanTheScreen).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::top {

struct Column {
  std::string title;
  bool is_number = false;  // to the right, and never cut
  int drop = 0;            // the highest goes first where there is no room; 0 stays
  std::size_t least = 0;   // so wide at least, of numbers lest they jump from look to look; words are cut to no less
};
using Cells = std::vector<std::string>;

// The first line is the titles'.
std::vector<std::string> fitted(const std::vector<Column>& columns, const std::vector<Cells>& rows, std::size_t width);

std::size_t width_of(std::string_view text);
// At most so wide; a cut is seen by a ~ at its end.
std::string cut(std::string_view text, std::size_t width);
// In lines of that width, broken at spaces where there are some; what follows the first line is set in.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);
// What a terminal might take for an order becomes ?: names and errors come from others.
std::string printable(std::string_view text);

}  // namespace troupe::top
