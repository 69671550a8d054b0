// Lines that fit, whatever is in them.
#include "tools/top/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::top {
namespace {

using testing::ElementsAre;

const std::vector<Column> kThree{{"RANK", true}, {"ACTOR"}, {"AGE", true, 1}};

TEST(Columns, WhatMattersLeastGoesFirst) {
  const std::vector<Cells> rows{{"0", "a-long-name-of-an-actor", "12 s"}};
  EXPECT_THAT(fitted(kThree, rows, 80), ElementsAre("RANK ACTOR                    AGE", "   0 a-long-name-of-an-actor 12 s"));
  EXPECT_THAT(fitted(kThree, rows, 20), ElementsAre("RANK ACTOR       AGE", "   0 a-long-na~ 12 s"));
  EXPECT_THAT(fitted(kThree, rows, 14), ElementsAre("RANK ACTOR", "   0 a-long-n~"));
}

TEST(Columns, NeverWiderThanTheScreen) {
  const std::vector<Cells> rows{{"123456789", "größer als alles, was paßt", "1.5 min"}, {"", "", ""}};
  for (std::size_t width = 0; width < 60; ++width) {
    for (const auto& line : fitted(kThree, rows, width)) EXPECT_LE(width_of(line), width) << line;
    for (const auto& line : wrapped("  größer als alles, was in eine Zeile paßt", width)) EXPECT_LE(width_of(line), std::max<std::size_t>(width, width == 0 ? 60 : 0)) << line;
  }
}

TEST(Columns, WrappedTextLosesNoWord) {
  EXPECT_THAT(wrapped("one two three four", 9), ElementsAre("one two", "    three", "    four"));
  EXPECT_THAT(wrapped("abcdefghijkl", 5), ElementsAre("abcde", "  fgh", "  ijk", "  l"));
  EXPECT_THAT(wrapped("", 5), ElementsAre(""));
}

// An actor's name or an error's text must not move the cursor of whoever looks.
TEST(Columns, NothingIsAnOrderToTheTerminal) {
  EXPECT_EQ(printable("a\033[2Jb\x7f\tc"), "a?[2Jb??c");
  EXPECT_EQ(printable("\xC2\x9B" "2J"), "?2J");
  EXPECT_EQ(printable("größer"), "größer");
}

}  // namespace
}  // namespace troupe::top
