#include "models/checkpoint/slice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/check.h"

namespace troupe::checkpoint {
namespace {

// elements of one row of dim `dim`: the product of the dims after it
std::int64_t row_elements(const Shape& shape, std::size_t dim) {
  std::int64_t elements = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) elements *= shape[d];
  return elements;
}

void cover(const Shape& shape, std::size_t dim, const Shape& prefix, std::int64_t begin, std::int64_t end,
           std::vector<Slice>& slices) {
  if (begin == end) return;
  if (dim == shape.size()) {
    slices.push_back({prefix, Shape(shape.size(), 1)});
    return;
  }
  const std::int64_t row = row_elements(shape, dim);
  const auto inside_row = [&](std::int64_t index, std::int64_t from, std::int64_t to) {
    Shape deeper = prefix;
    deeper.push_back(index);
    cover(shape, dim + 1, deeper, from, to, slices);
  };
  std::int64_t first = begin / row;
  const std::int64_t last = end / row;
  if (begin % row != 0) {
    const std::int64_t stop = std::min(end, (first + 1) * row);
    inside_row(first, begin - first * row, stop - first * row);
    if (stop == end) return;
    ++first;
  }
  if (first < last) {
    Slice rows = whole(shape);
    std::copy(prefix.begin(), prefix.end(), rows.offsets.begin());
    std::fill_n(rows.sizes.begin(), dim, 1);
    rows.offsets[dim] = first;
    rows.sizes[dim] = last - first;
    slices.push_back(std::move(rows));
  }
  if (end % row != 0) inside_row(last, 0, end % row);
}

}  // namespace

Slice whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

std::optional<std::int64_t> element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  }
  return count;
}

std::optional<std::int64_t> size_bytes(ElementType type, const Shape& shape) {
  std::optional<std::int64_t> bits = element_count(shape);
  if (!bits || __builtin_mul_overflow(*bits, std::int64_t{size_bits(type)}, &*bits)) return std::nullopt;
  if (*bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

bool is_inside(const Slice& slice, const Shape& shape) {
  if (slice.offsets.size() != shape.size() || slice.sizes.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (slice.offsets[d] < 0 || slice.sizes[d] < 0 || slice.offsets[d] > shape[d] ||
        slice.sizes[d] > shape[d] - slice.offsets[d]) {
      return false;
    }
  }
  return true;
}

bool overlap(const Slice& a, const Slice& b) {
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    const std::int64_t begin = std::max(a.offsets[d], b.offsets[d]);
    const std::int64_t end = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (begin >= end) return false;
  }
  return true;
}

std::optional<std::int64_t> flat_begin(const Slice& slice, const Shape& shape) {
  std::int64_t begin = 0;
  bool partial = false;  // a dim before this one has more than one index
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (partial && slice.sizes[d] != shape[d]) return std::nullopt;
    if (slice.sizes[d] != 1) partial = true;
    begin = begin * shape[d] + slice.offsets[d];
  }
  return begin;
}

std::vector<Slice> cover_flat_range(const Shape& shape, std::int64_t begin, std::int64_t count) {
  const std::optional<std::int64_t> total = element_count(shape);
  TROUPE_CHECK(total && begin >= 0 && count >= 0 && begin <= *total && count <= *total - begin)
      << "range " << begin << " + " << count << " of " << to_string(shape);
  std::vector<Slice> slices;
  cover(shape, 0, {}, begin, begin + count, slices);
  return slices;
}

std::optional<std::string> tiling_fault(const Shape& shape, std::span<const Slice> slices) {
  std::vector<const Slice*> sorted;
  for (const Slice& slice : slices) {
    if (!is_inside(slice, shape))
      return absl::StrCat("slice ", to_string(slice), " lies outside ", to_string(shape));
    sorted.push_back(&slice);
  }
  // By first dim, so that only slices that share rows are compared: linear for slices of rows.
  if (!shape.empty()) std::ranges::sort(sorted, {}, [](const Slice* slice) { return slice->offsets[0]; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = i + 1; j < sorted.size(); ++j) {
      if (!shape.empty() && sorted[j]->offsets[0] >= sorted[i]->offsets[0] + sorted[i]->sizes[0]) break;
      if (overlap(*sorted[i], *sorted[j])) {
        return absl::StrCat("slices ", to_string(*sorted[i]), " and ", to_string(*sorted[j]), " overlap");
      }
    }
  }
  const std::int64_t total = element_count(shape).value_or(-1);
  std::int64_t covered = 0;  // at most total: none overlap
  for (const Slice& slice : slices) covered += element_count(slice.sizes).value_or(0);
  if (covered != total)
    return absl::StrCat("slices hold ", covered, " of ", total, " elements of ", to_string(shape));
  return std::nullopt;
}

void for_each_shared_run(const Slice& from, const Slice& to, const RunCallback& run) {
  if (!overlap(from, to)) return;
  const std::size_t rank = from.offsets.size();
  Shape begin(rank), sizes(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    begin[d] = std::max(from.offsets[d], to.offsets[d]);
    sizes[d] = std::min(from.offsets[d] + from.sizes[d], to.offsets[d] + to.sizes[d]) - begin[d];
  }
  // Dims after `outer` are whole in both, so that one run spans them.
  std::size_t outer = rank;
  std::int64_t length = 1;
  while (outer > 0) {
    --outer;
    length *= sizes[outer];
    if (sizes[outer] != from.sizes[outer] || sizes[outer] != to.sizes[outer]) break;
  }
  Shape index(outer, 0);
  while (true) {
    std::int64_t at_from = 0, at_to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t i = begin[d] + (d < outer ? index[d] : 0);
      at_from = at_from * from.sizes[d] + i - from.offsets[d];
      at_to = at_to * to.sizes[d] + i - to.offsets[d];
    }
    run(at_from, at_to, length);
    std::size_t d = outer;
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::string to_string(const Shape& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string to_string(const Slice& slice) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < slice.offsets.size(); ++d) {
    dims.push_back(absl::StrCat(slice.offsets[d], ":", slice.offsets[d] + slice.sizes[d]));
  }
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

}  // namespace troupe::checkpoint
