#include "runtime/base/check.h"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(Check, AbortsWithConditionMessageAndLastWords) {
  const int id = add_last_words([] { std::fputs("the last words\n", stderr); });
  EXPECT_DEATH(TROUPE_CHECK(1 + 1 == 3) << "sum is " << 2, "1 \\+ 1 == 3.*sum is 2\n*.*the last words");
  remove_last_words(id);
}

TEST(Check, DoesNothingWhenTheConditionHolds) {
  int evaluated = 0;
  TROUPE_CHECK(++evaluated == 1) << "never built";
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace troupe
