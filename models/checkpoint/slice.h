// Rectangular parts of a tensor: what one rank holds of it, what another asks for, and what both share.
//
// Threads: any; pure functions. Limits: sizes are 64-bit, products are checked.
// Invariants: the flat cover has the range's elements, once each, in order (Slice.CoversAFlatRangeInOrder);
// shared runs copy what indexing element by element would (Slice.SharedRunsAreWhatIndexingGives).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/element_type.h"

namespace troupe::checkpoint {

using Shape = std::vector<std::int64_t>;

// Elements [offsets[d], offsets[d] + sizes[d]) of every dim d; row-major, dense.
struct Slice {
  Shape offsets;
  Shape sizes;
  friend bool operator==(const Slice&, const Slice&) = default;
};

Slice whole(const Shape& shape);
std::optional<std::int64_t> element_count(const Shape& shape);  // nullopt: beyond 2^63 - 1
std::optional<std::int64_t> size_bytes(ElementType type,
                                       const Shape& shape);  // nullopt: that, or not whole bytes
bool is_inside(const Slice& slice, const Shape& shape);      // also: ranks agree, nothing negative
bool overlap(const Slice& a, const Slice& b);                // share an element

// Where the slice starts in the flattened tensor, when it is one contiguous range of it.
std::optional<std::int64_t> flat_begin(const Slice& slice, const Shape& shape);
// The contiguous slices, in order, that make up elements [begin, begin + count) of the flattened tensor: how
// a ZeRO shard names its part. At most 2 * rank - 1.
std::vector<Slice> cover_flat_range(const Shape& shape, std::int64_t begin, std::int64_t count);

// Nothing when the slices tile the shape exactly; else what is wrong: "elements missing: ...", "slices A and
// B overlap".
std::optional<std::string> tiling_fault(const Shape& shape, std::span<const Slice> slices);

// Calls back for each contiguous run that both slices hold: element offsets within `from`, within `to`, and
// its length.
using RunCallback = std::function<void(std::int64_t from, std::int64_t to, std::int64_t count)>;
void for_each_shared_run(const Slice& from, const Slice& to, const RunCallback& run);

std::string to_string(const Shape& shape);  // "[2, 3]"
std::string to_string(const Slice& slice);  // "[0:2, 4:8]"

}  // namespace troupe::checkpoint
