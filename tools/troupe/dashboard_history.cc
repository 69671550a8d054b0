#include "tools/troupe/dashboard_history.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"

namespace troupe::tool {
namespace {

using nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double number_in(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : kNone;
}

std::int64_t whole_in(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string text_member(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

// JSON has no NaN: left out.
void put_number(json& row, const char* key, double value) {
  if (std::isfinite(value)) row[key] = value;
}

// Of each four neighbours two: the lowest and the highest by `key`; those at the ends always.
template <class Point, class Key>
std::vector<Point> thinned(const std::vector<Point>& points, Key key) {
  std::vector<Point> kept;
  for (std::size_t i = 0; i < points.size(); i += 4) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i), end = points.begin() + static_cast<std::ptrdiff_t>(std::min(i + 4, points.size()));
    const auto less = [&](const Point& a, const Point& b) { return key(a) < key(b); };
    auto low = std::min_element(begin, end, less), high = std::max_element(begin, end, less);
    if (low == high) high = end - 1;  // all alike
    if (high < low) std::swap(low, high);
    if (end == points.end()) high = end - 1;
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  return kept;
}

}  // namespace

void DashboardHistory::add(const Step& point) {
  while (!steps_.empty() && steps_.back().step >= point.step) steps_.pop_back();  // resumed from a checkpoint
  steps_.push_back(point);
  if (steps_.size() > kPointsMost) {
    steps_ = thinned(steps_, [](const Step& step) { return std::isfinite(step.loss) ? step.loss : std::numeric_limits<double>::max(); });
  }
}

void DashboardHistory::follow(const std::string& run) {
  if (run.empty() || run == run_) return;
  if (!run_.empty()) *this = DashboardHistory();
  run_ = run;
}

void DashboardHistory::take(const json& frame) {
  Memory memory;
  const auto ranks = frame.find("ranks");
  if (ranks == frame.end() || !ranks->is_array()) return;
  bool is_known_of_all = true;
  std::set<std::string> counted;  // of a process that has several ranks each says that of all
  for (const auto& rank : *ranks) {
    if (!rank.is_object()) continue;
    const auto answered = rank.find("answered");
    Process& last = last_[whole_in(rank, "rank")];
    if (answered == rank.end() || *answered != json(false))
      last = {absl::StrCat(text_member(rank, "host"), " ", whole_in(rank, "pid")), whole_in(rank, "memory_bytes"), whole_in(rank, "memory_peak_bytes")};
    is_known_of_all = is_known_of_all && !last.where.empty();
    const bool is_another = counted.insert(last.where).second;
    if (is_another) memory.bytes += last.bytes;
    if (is_another) memory.peak_bytes += last.peak_bytes;
    const auto training = rank.find("training");
    if (training == rank.end() || !training->is_object() || from_metrics_) continue;
    const Step point{whole_in(*training, "step"), number_in(*training, "loss"), number_in(*training, "tokens_per_s"), number_in(*training, "mfu_ratio"),
                     number_in(*training, "step_s")};
    if (point.step > 0 && point.step != last_step()) add(point);
  }
  if (memory.bytes == 0 || !is_known_of_all) return;
  memory.at_unix_s = number_in(frame, "at_unix_s");
  memory_.push_back(memory);
  if (memory_.size() > kPointsMost) memory_ = thinned(memory_, [](const Memory& point) { return point.bytes; });
}

void DashboardHistory::read_metrics(const std::string& path) {
  struct stat file{};
  std::ifstream input(path, std::ios::binary);
  if (!input || stat(path.c_str(), &file) != 0) {
    from_metrics_ = false;  // what is known stays, and frames say what comes
    return;
  }
  if (path != path_ || file.st_ino != inode_ || static_cast<std::uint64_t>(file.st_size) < offset_) {
    path_ = path;
    inode_ = file.st_ino;
    offset_ = 0;
    torn_.clear();
    steps_.clear();
  }
  if (static_cast<std::uint64_t>(file.st_size) == offset_) return;
  input.seekg(static_cast<std::streamoff>(offset_));
  for (std::string line; std::getline(input, line);) {
    offset_ += line.size();
    torn_ += line;
    if (input.eof()) break;  // the rest of it comes later
    ++offset_;
    take_line(torn_);
    torn_.clear();
  }
}

void DashboardHistory::take_line(const std::string& line) {
  const json row = json::parse(line, nullptr, false);
  if (!row.is_object()) return;
  const Step point{whole_in(row, "step"), number_in(row, "loss"), number_in(row, "tokens_per_s"), number_in(row, "mfu"), number_in(row, "step_s")};
  if (point.step <= 0) return;
  from_metrics_ = true;
  add(point);
}

std::string DashboardHistory::text(const std::string& output) const {
  json steps = json::array(), memory = json::array();
  for (const auto& point : steps_) {
    json row{{"step", point.step}};
    put_number(row, "loss", point.loss);
    put_number(row, "tokens_per_s", point.tokens_per_s);
    put_number(row, "mfu_ratio", point.mfu_ratio);
    put_number(row, "step_s", point.step_s);
    steps.push_back(std::move(row));
  }
  for (const auto& point : memory_) memory.push_back({{"at_unix_s", point.at_unix_s}, {"bytes", point.bytes}, {"peak_bytes", point.peak_bytes}});
  return json{{"schema", 1}, {"output", output}, {"run", run_}, {"steps", std::move(steps)}, {"memory", std::move(memory)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace troupe::tool
