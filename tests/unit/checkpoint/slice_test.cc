#include "models/checkpoint/slice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::checkpoint {
namespace {

// the flat indexes of a slice's elements, one by one
std::vector<std::int64_t> indexes(const Slice& slice, const Shape& shape) {
  std::vector<std::int64_t> found;
  const std::int64_t total = *element_count(shape);
  for (std::int64_t i = 0; i < total; ++i) {
    std::int64_t rest = i;
    bool in = true;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t at = rest % shape[d];
      rest /= shape[d];
      in = in && at >= slice.offsets[d] && at < slice.offsets[d] + slice.sizes[d];
    }
    if (in) found.push_back(i);
  }
  return found;
}

TEST(Slice, CoversAFlatRangeInOrder) {
  for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 3, 4}, Shape{1, 6, 1}, Shape{2, 2, 2, 2}}) {
    const std::int64_t total = *element_count(shape);
    for (std::int64_t begin = 0; begin <= total; ++begin) {
      for (std::int64_t end = begin; end <= total; ++end) {
        const std::vector<Slice> slices = cover_flat_range(shape, begin, end - begin);
        EXPECT_LE(slices.size(), 2 * shape.size() - 1);
        std::int64_t next = begin;
        for (const Slice& slice : slices) {
          EXPECT_TRUE(is_inside(slice, shape));
          EXPECT_EQ(flat_begin(slice, shape), next);
          for (const std::int64_t i : indexes(slice, shape)) EXPECT_EQ(i, next++);
        }
        EXPECT_EQ(next, end) << to_string(shape) << " from " << begin;
      }
    }
  }
}

TEST(Slice, CoversScalarsAndNothing) {
  EXPECT_EQ(cover_flat_range({}, 0, 1), (std::vector<Slice>{{{}, {}}}));
  EXPECT_TRUE(cover_flat_range({0, 3}, 0, 0).empty());
}

TEST(Slice, HasNoFlatBeginWhenItIsNoRange) {
  EXPECT_EQ(flat_begin({{0, 2}, {2, 2}}, {4, 8}), std::nullopt);
  EXPECT_EQ(flat_begin({{1, 0}, {2, 8}}, {4, 8}), 8);
  EXPECT_EQ(flat_begin({{1, 2}, {1, 3}}, {4, 8}), 10);
}

TEST(Slice, SharedRunsAreWhatIndexingGives) {
  const Shape shape{3, 4, 2};
  std::vector<Slice> all;
  for (std::int64_t a = 0; a < 3; ++a) {
    for (std::int64_t b = 0; b < 4; ++b) {
      for (std::int64_t n = 1; n <= 3 - a; ++n) {
        for (std::int64_t m = 1; m <= 4 - b; ++m) {
          all.push_back({{a, b, 0}, {n, m, 2}});
          all.push_back({{a, b, 1}, {n, m, 1}});
        }
      }
    }
  }
  for (const Slice& from : all) {
    const std::vector<std::int64_t> have = indexes(from, shape);
    for (const Slice& to : all) {
      const std::vector<std::int64_t> want = indexes(to, shape);
      std::vector<std::int64_t> copied(want.size(), -1);
      for_each_shared_run(from, to, [&](std::int64_t f, std::int64_t t, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          copied.at(static_cast<std::size_t>(t + i)) = have.at(static_cast<std::size_t>(f + i));
        }
      });
      for (std::size_t i = 0; i < want.size(); ++i) {
        const bool shared = std::ranges::count(have, want[i]) > 0;
        EXPECT_EQ(copied[i], shared ? want[i] : -1);
      }
    }
  }
}

TEST(Slice, TilingFaultNamesGapOverlapAndOutside) {
  const Shape shape{4, 4};
  const std::vector<Slice> tiles{{{0, 0}, {4, 2}}, {{0, 2}, {2, 2}}, {{2, 2}, {2, 2}}};
  EXPECT_EQ(tiling_fault(shape, tiles), std::nullopt);
  EXPECT_EQ(tiling_fault(shape, std::span(tiles).first(2)), "slices hold 12 of 16 elements of [4, 4]");
  const std::vector<Slice> doubled{{{0, 0}, {4, 3}}, {{1, 2}, {1, 2}}};
  EXPECT_EQ(tiling_fault(shape, doubled), "slices [0:4, 0:3] and [1:2, 2:4] overlap");
  const std::vector<Slice> outside{{{0, 0}, {4, 5}}};
  EXPECT_EQ(tiling_fault(shape, outside), "slice [0:4, 0:5] lies outside [4, 4]");
  EXPECT_EQ(tiling_fault({0, 4}, std::span<const Slice>()), std::nullopt);
}

TEST(Slice, CountsInSixtyFourBitsAndNoFurther) {
  EXPECT_EQ(size_bytes(ElementType::kF32, {1 << 20, 1 << 20}), std::int64_t{1} << 42);
  EXPECT_EQ(element_count({std::int64_t{1} << 32, std::int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(size_bytes(ElementType::kF4, {3}), std::nullopt);  // 12 bits
  EXPECT_FALSE(is_inside({{INT64_MAX}, {1}}, {INT64_MAX}));
  EXPECT_FALSE(is_inside({{-1}, {1}}, {4}));
  EXPECT_FALSE(is_inside({{0}, {1}}, {1, 1}));
}

}  // namespace
}  // namespace troupe::checkpoint
