#include "tools/troupe/table.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace troupe::tool {
namespace {

constexpr std::size_t kGap = 2, kCutLeast = 8;
constexpr char kCut[] = "...";

std::string fitted(const std::string& cell, std::size_t width, bool is_number) {
  if (cell.size() > width) return cell.substr(0, width - (sizeof kCut - 1)) + kCut;
  const std::string space(width - cell.size(), ' ');
  return is_number ? space + cell : cell + space;
}

}  // namespace

std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    widths.push_back(columns[i].title.size());
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  while (std::accumulate(widths.begin(), widths.end(), kGap * (columns.size() - 1)) > kTableWidth) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].is_number && widths[i] > kCutLeast && (widest == nullptr || widths[i] > *widest)) widest = &widths[i];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  std::string text;
  const auto add_line = [&](auto&& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) absl::StrAppend(&line, i > 0 ? "  " : "", fitted(cell_of(i), widths[i], columns[i].is_number));
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add_line([&](std::size_t i) { return columns[i].title; });
  for (const auto& row : rows) add_line([&](std::size_t i) { return row[i]; });
  return text;
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.0f ms", seconds * 1e3);
  if (seconds < 120) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.0f min", seconds / 60);
  return seconds < 48 * 3600 ? absl::StrFormat("%.1f h", seconds / 3600) : absl::StrFormat("%.1f d", seconds / 86400);
}

}  // namespace troupe::tool
