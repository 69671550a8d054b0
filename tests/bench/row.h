// One line of the benchmark's answer: a number with its definition (law 11).
#pragma once

#include <string>

namespace troupe::bench {

struct BenchRow {
  std::string name;        // "kernels/rmsnorm bf16"
  double value = 0;
  std::string unit;
  double bar = 0;          // what it should reach; 0 where there is none
  double peer = 0;         // the same by another program in the same run; 0 where there is none
  std::string definition;
};

}  // namespace troupe::bench
