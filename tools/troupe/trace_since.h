// From when on `troupe trace` asks ranks for what they recorded: a question goes to all, and each reads its time on the clock of its own host,
// which may be ahead of the others' and of the asker's, or behind.
// Threads: one. Units: seconds; now_s is a steady clock of the asker's. Invariants: TraceSince.*.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

namespace troupe::tool {

class TraceSince {
 public:
  static constexpr double kOverlapS = 0.002;  // of two looks
  static constexpr double kBackMostS = 2;     // a rank that was last seen before that has lost what its rings could not hold, and asks no more of the others

  // What a rank answered to a question asked at now_s was of at_unix_s, by its host.
  void saw(int rank, double at_unix_s, double now_s) { seen_[rank] = {.at_unix_s = at_unix_s, .now_s = now_s}; }

  // So early that no rank that was seen lately leaves anything out, whatever its clock shows; ranks whose clocks are ahead of the slowest say
  // again what is known, up to all that their rings hold: work for them, and nothing twice in the file. None: nobody was seen lately.
  std::optional<double> unix_s(double now_s) const {
    std::optional<double> since;
    for (const auto& [rank, seen] : seen_) {
      if (now_s - seen.now_s <= kBackMostS) since = std::min(since.value_or(seen.at_unix_s), seen.at_unix_s);
    }
    return since ? std::optional(std::max(0.0, *since - kOverlapS)) : std::nullopt;
  }

 private:
  struct Seen {
    double at_unix_s = 0, now_s = 0;
  };
  std::map<int, Seen> seen_;
};

}  // namespace troupe::tool
