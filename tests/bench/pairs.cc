#include "tests/bench/pairs.h"

#include <algorithm>

namespace troupe::bench {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double spread(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)]; };
  return (at(0.75) - at(0.25)) / 2 / median(values);
}

double spread_against_itself(const std::vector<double>& values) {
  std::vector<double> ratios;
  for (std::size_t i = 1; i < values.size(); ++i) ratios.push_back(values[i] / values[i - 1]);
  return spread(ratios);
}

StatusOr<Pairs> in_turns(int pairs, const Measure& first, const Measure& second) {
  Pairs result;
  for (int i = 0; i < pairs; ++i) {
    double a = 0, b = 0;
    if (i % 2 == 0) {
      TROUPE_ASSIGN_OR_RETURN(a, first());
    }
    TROUPE_ASSIGN_OR_RETURN(b, second());
    if (i % 2 == 1) {
      TROUPE_ASSIGN_OR_RETURN(a, first());
    }
    result.first.push_back(a);
    result.second.push_back(b);
    result.ratios.push_back(a / b);
  }
  return result;
}

void add_ratio(std::vector<BenchRow>& rows, const std::string& name, double bar, const Pairs& pairs, const std::string& definition) {
  rows.push_back({name, median(pairs.ratios), "ratio", bar, median(pairs.second), definition});
  rows.push_back({name + ".spread", spread_against_itself(pairs.second), "ratio", 0, 0,
                  "pairs of the second against itself, one after the other: half the distance between the quartiles, over the median"});
}

}  // namespace troupe::bench
