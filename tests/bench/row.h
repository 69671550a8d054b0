// One measured figure, with what it means: a number carries its definition (DESIGN law 11).
#pragma once

#include <string>

namespace troupe::bench {

struct BenchRow {
  std::string name;
  double value = 0;
  std::string unit;
  double bar = 0;   // what `value` has to reach; 0 for none
  double peer = 0;  // the same figure of whom it is compared with, in the unit of the measurement behind it; 0 for none
  std::string definition;
};

}  // namespace troupe::bench
