// Rows for people, aligned, in lines that fit a terminal: the widest column of words gives way. Threads: any; pure.
#pragma once

#include <string>
#include <vector>

namespace troupe::tool {

inline constexpr std::size_t kTableWidth = 100;

struct Column {
  std::string title;
  bool is_number = false;  // to the right, and never cut
};
std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

// "3.4 s", "12 min"; two or three digits that matter.
std::string duration(double seconds);

}  // namespace troupe::tool
