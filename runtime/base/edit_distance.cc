#include "runtime/base/edit_distance.h"

#include <algorithm>
#include <vector>

namespace troupe {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> int& { return cost[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

bool is_near(std::string_view a, std::string_view b) {
  const int longest = static_cast<int>(std::max(a.size(), b.size()));
  return edit_distance(a, b) <= std::max(1, longest / 3);
}

}  // namespace troupe
