// Two things measured in turns, and what may be said of their ratio.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/bench/row.h"

namespace troupe::bench {

double median(std::vector<double> values);
// Half the distance between the quartiles, over the median: how far pairs lie apart.
double spread(std::vector<double> values);
// Each measurement over the one before of the same: how far a pair of equals lies apart.
double spread_against_itself(const std::vector<double>& values);

using Measure = std::function<StatusOr<double>()>;

// `ratios`: first over second.
struct Pairs {
  std::vector<double> first, second, ratios;
};
// The first failure of either ends it. Who goes first alternates, so that a drift of the machine falls on both.
StatusOr<Pairs> in_turns(int pairs, const Measure& first, const Measure& second);

// The median of the ratios, with the second's median as the peer, and NAME.spread.
void add_ratio(std::vector<BenchRow>& rows, const std::string& name, double bar, const Pairs& pairs, const std::string& definition);

}  // namespace troupe::bench
