// The series that the dashboard draws: by step from metrics.jsonl, or, where that cannot be read, from frames; memory by time.
// Threads: one. Owns: its points. Errors: none: a file that cannot be read, or a line that says nothing, is passed over.
// Limits: kPointsMost points a series; of more, the lowest and the highest loss of each four neighbours stay, so that a spike does not get lost.
// Invariants: never more than kPointsMost points, and a spike is among them (DashboardHistory.ThinsAndKeepsSpikes); of a step that was
// repeated after a resume the later line counts (DashboardHistory.ARepeatedStepCountsOnce). All points are of one run, however often it was
// begun again (DashboardHistory.KeepsItsPointsWhenTheRunGoesOn, DashboardHistory.ForgetsThePointsOfAnotherRun).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace troupe::tool {

class DashboardHistory {
 public:
  static constexpr std::size_t kPointsMost = 2000;

  // The run that all that follows is of: its output folder, or its job's id where it has none; empty: nobody said. Another one's points are forgotten.
  void follow(const std::string& run);
  // `frame`: its ranks' training and memory are looked at.
  void take(const nlohmann::json& frame);
  // What was appended to the file since the last call; from the start where it is another file, or has become shorter.
  void read_metrics(const std::string& path);
  // {"schema", "output", "run", "steps": [...], "memory": [...]}
  std::string text(const std::string& output) const;

  std::int64_t last_step() const { return steps_.empty() ? 0 : steps_.back().step; }

 private:
  struct Step {
    std::int64_t step = 0;
    double loss = 0, tokens_per_s = 0, mfu_ratio = 0, step_s = 0;
  };
  struct Memory {
    double at_unix_s = 0;
    std::int64_t bytes = 0, peak_bytes = 0;
  };
  struct Process {
    std::string where;
    std::int64_t bytes = 0, peak_bytes = 0;
  };
  void add(const Step& point);
  void take_line(const std::string& line);

  std::vector<Step> steps_;
  std::vector<Memory> memory_;
  std::map<std::int64_t, Process> last_;  // by rank, as it last answered
  std::string run_;
  std::string path_, torn_;  // of metrics.jsonl: the last line, as far as it is there
  std::uint64_t offset_ = 0, inode_ = 0;
  bool from_metrics_ = false;
};

}  // namespace troupe::tool
