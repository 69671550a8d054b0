#include "runtime/base/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "runtime/base/edit_distance.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

using ::testing::HasSubstr;

std::string message(std::string_view text) {
  return std::string(read_toml(text, "a.toml").status().message());
}

TEST(Toml, ListsEntriesWithDottedKeysAndLinesInTheOrderOfTheText) {
  const auto entries = read_toml("z = 1\n[b.c]\nd = [1, 2]\n\n[a]\ne.f = \"x\"\n\"g.h\" = 2.5\n", "a.toml");
  ASSERT_TRUE(entries.ok()) << entries.status();
  std::vector<std::pair<std::string, int>> seen;
  for (const TomlEntry& entry : *entries) seen.emplace_back(entry.key, entry.line);
  const std::vector<std::pair<std::string, int>> expected = {
      {"z", 1}, {"b", 2}, {"b.c", 2}, {"b.c.d", 3}, {"a", 5}, {"a.e", 6}, {"a.e.f", 6}, {"a.\"g.h\"", 7}};
  EXPECT_EQ(seen, expected);
}

TEST(Toml, NamesTheLineOfASyntaxError) {
  EXPECT_THAT(message("a = 1\nb = = 2\n"), HasSubstr("a.toml:2: not valid TOML"));
  EXPECT_THAT(message("[a]\nb = 1\nb = 2\n"), HasSubstr("a.toml:3: not valid TOML"));
  EXPECT_THAT(message("a = \"open\n"), HasSubstr("a.toml:1: not valid TOML"));
  EXPECT_THAT(message("a = 99999999999999999999"), HasSubstr("a.toml:1: not valid TOML"));
  EXPECT_THAT(message("a = \"\xff\"\n"), HasSubstr("a.toml:1: not valid TOML"));
  EXPECT_TRUE(read_toml("", "a.toml").ok());
}

TEST(Toml, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  EXPECT_THAT(message("a = " + std::string(100000, '[')), HasSubstr("a.toml:1: not valid TOML"));
}

TEST(Toml, FloatsAndStringsReadBackToTheSameBits) {
  std::vector<double> values = {0.0, -0.0, 1.0, 0.1, 1e-8, 8e-4, 1e300, 5e-324, 1e22, 123456789.0, 1.0 / 3.0};
  const RandomStream random(RandomKey{.seed = 3});
  for (std::uint64_t i = 0; i < 500; ++i)
    values.push_back(std::ldexp(random.uniform(i), static_cast<int>(i) - 250));
  for (const double value : values) {
    const auto entries = read_toml("a = " + toml_float(value), "a.toml");
    ASSERT_TRUE(entries.ok()) << entries.status();
    const double* back = std::get_if<double>(&entries->front().value);
    ASSERT_NE(back, nullptr) << toml_float(value) << " is no float";
    EXPECT_EQ(*back, value);
    EXPECT_EQ(std::signbit(*back), std::signbit(value));
  }
  std::string every_byte;
  for (int c = 1; c < 128; ++c) every_byte += static_cast<char>(c);
  for (const std::string& text : {every_byte, std::string("é 語 \"\\\n"), std::string()}) {
    const auto entries = read_toml("a = " + toml_string(text), "a.toml");
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_EQ(std::get<std::string>(entries->front().value), text);
  }
}

TEST(Toml, KnowsUtf8FromOtherBytes) {
  for (const char* good :
       {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc2", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("lenght", "length"), 1);  // neighbours swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_TRUE(is_near("lr", "lt"));
  EXPECT_FALSE(is_near("lr", "dp"));
}

}  // namespace
}  // namespace troupe
