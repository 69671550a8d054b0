// What is done in a second, from two looks at counts that only grow.
// Threads: one. Owns: the counts of the last look. Errors: none: where there was no earlier look, or the counts began again, there is no rate.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace troupe::top {

struct ActorRates {
  std::optional<double> handled_per_s, busy_ratio, growth_per_s;  // growth: of the mailbox
};
struct EdgeRates {
  std::optional<double> sent_per_s, bytes_per_s;
};

class Rates {
 public:
  void look(const nlohmann::json& frame);
  // `id`: rank/name. Of the last two looks; the same until the next.
  ActorRates actor(const std::string& id) const;
  EdgeRates edge(const std::string& id) const;

 private:
  struct Counts {
    double at_s = 0, done = 0, busy_s = 0, depth = 0, bytes = 0;
  };
  std::map<std::string, Counts> last_;  // "a" or "e", then the id
  std::map<std::string, ActorRates> actors_;
  std::map<std::string, EdgeRates> edges_;
};

// How an edge is told from others: rank/name.
std::string edge_id(int rank, const nlohmann::json& edge);

}  // namespace troupe::top
