#include "tools/top/columns.h"

#include <algorithm>

namespace troupe::top {
namespace {

constexpr std::size_t kGap = 1, kCutLeast = 8, kSetIn = 4;

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Bytes of the first `characters`.
std::size_t bytes_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (begins_character(text[at]) && characters-- == 0) break;
  }
  return at;
}

struct Fit {
  const Column* column;
  std::size_t index, width, least;
};

std::size_t total(const std::vector<Fit>& fits, std::size_t Fit::* width) {
  std::size_t sum = fits.empty() ? 0 : kGap * (fits.size() - 1);
  for (const auto& fit : fits) sum += fit.*width;
  return sum;
}

std::vector<Fit> fits_of(const std::vector<Column>& columns, const std::vector<Cells>& rows, std::size_t width) {
  std::vector<Fit> fits;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::size_t wide = std::max(width_of(columns[i].title), columns[i].is_number ? columns[i].least : 0);
    for (const auto& row : rows) wide = std::max(wide, width_of(row[i]));
    fits.push_back({&columns[i], i, wide, columns[i].is_number ? wide : std::min(wide, std::max({kCutLeast, columns[i].least, width_of(columns[i].title)}))});
  }
  while (total(fits, &Fit::least) > width) {
    const auto first = std::ranges::max_element(fits, {}, [](const Fit& fit) { return fit.column->drop; });
    if (first == fits.end() || first->column->drop == 0) break;
    fits.erase(first);
  }
  while (total(fits, &Fit::width) > width) {
    Fit* widest = nullptr;
    for (auto& fit : fits) {
      if (fit.width > fit.least && (widest == nullptr || fit.width > widest->width)) widest = &fit;
    }
    if (widest == nullptr) break;
    --widest->width;
  }
  return fits;
}

}  // namespace

std::vector<std::string> fitted(const std::vector<Column>& columns, const std::vector<Cells>& rows, std::size_t width) {
  const auto fits = fits_of(columns, rows, width);
  std::vector<std::string> lines;
  const auto add = [&](auto&& cell_of) {
    std::string line;
    for (const auto& fit : fits) {
      const std::string cell = cut(cell_of(fit.index), fit.width), space(fit.width - width_of(cell), ' ');
      if (&fit != &fits.front()) line.append(kGap, ' ');
      line += fit.column->is_number ? space + cell : cell + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(cut(line, width));
  };
  add([&](std::size_t i) { return columns[i].title; });
  for (const auto& row : rows) add([&](std::size_t i) { return row[i]; });
  return lines;
}

std::size_t width_of(std::string_view text) { return static_cast<std::size_t>(std::ranges::count_if(text, begins_character)); }

std::string cut(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  return width == 0 ? "" : std::string(text.substr(0, bytes_of(text, width - 1))) + "~";
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  const std::size_t own = std::min(text.find_first_not_of(' '), text.size()), in = std::min(own + kSetIn, width / 2);
  for (std::size_t room = width; width_of(text) > room && room > 0; room = width - in) {
    std::size_t end = bytes_of(text, room);
    if (const auto space = text.substr(0, end + 1).rfind(' '); space != std::string_view::npos && space > own) end = space;
    lines.push_back(std::string(lines.empty() ? 0 : in, ' ') + std::string(text.substr(0, end)));
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  if (lines.empty() || !text.empty()) lines.push_back(std::string(lines.empty() ? 0 : in, ' ') + std::string(text));
  return lines;
}

std::string printable(std::string_view text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (is_c1) ++i;
    safe += is_c1 || byte < 0x20 || byte == 0x7F ? '?' : text[i];
  }
  return safe;
}

}  // namespace troupe::top
