#include "tests/bench/messages.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace troupe::bench {
namespace {

TEST(Messages, CostAtMostATenthMoreThanInBareCaf) {
  for (const auto& row : bench_messages()) {
    EXPECT_GE(row.value, row.bar) << row.name;
    std::printf("%-21s %12.4g %-4s bar %.4g peer %.4g  %s\n", row.name.c_str(), row.value, row.unit.c_str(), row.bar, row.peer,
                row.definition.c_str());
  }
}

}  // namespace
}  // namespace troupe::bench
