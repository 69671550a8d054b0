#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

// Ties, the largest values, subnormals: where rounding to bf16 goes wrong.
Generator hard_to_round() {
  using F = std::numeric_limits<float>;
  return [](const RandomStream& random, std::uint64_t i) {
    constexpr double kHard[] = {0.0,
                                -0.0,
                                1 + 0x1p-8,
                                1 + 3 * 0x1p-8,
                                -(1 + 0x1p-8),
                                1 + 0x1p-8 + 0x1p-23,
                                1 + 0x1p-8 - 0x1p-23,
                                F::max(),
                                F::lowest(),
                                F::infinity(),
                                -F::infinity(),
                                F::quiet_NaN(),
                                F::min(),
                                F::denorm_min(),
                                0x1p-130,
                                3e-39};
    return i < std::size(kHard) ? kHard[i] : 100 * random.normal(i);
  };
}

Case cast(std::int64_t n, DType from, DType to) {
  Case c{
      .op = "cast",
      .name = absl::StrCat(n, " ", std::string(device::name(from)), " to ", std::string(device::name(to)))};
  c.exact = true;
  c.add({.name = "x", .shape = {n}, .holds = Holds::kFloat, .fill = hard_to_round(), .fixed = from});
  c.add({.name = "y", .shape = {n}, .holds = Holds::kFloat, .role = Role::kOutput, .fixed = to});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) { t.cast(stream, {v["y"], v["x"]}); };
  return c;
}

Case fill(std::int64_t n, float value) {
  Case c{.op = "fill", .name = absl::StrCat(n, " of ", value), .exact = true};
  c.output("y", {n});
  c.call = [value](const Table& t, Stream& stream, const Tensors& v) { t.fill(stream, {v["y"], value}); };
  return c;
}

Case add(std::int64_t n, const char* in_place_of) {
  Case c{
      .op = "add", .name = absl::StrCat(n, " in place of ", in_place_of), .tolerance = kElementwiseTolerance};
  c.input("a", {n, 3}).input("b", {n, 3}).output("y", {n, 3}, in_place_of);
  c.call = [](const Table& t, Stream& stream, const Tensors& v) { t.add(stream, {v["y"], v["a"], v["b"]}); };
  return c;
}

Case twice(std::int64_t n) {
  Case c{.op = "add", .name = absl::StrCat(n, " to itself, in place"), .tolerance = kElementwiseTolerance};
  c.add({.name = "y", .shape = {n}, .role = Role::kUpdated, .fill = normal()});
  c.exact = true;  // doubling
  c.call = [](const Table& t, Stream& stream, const Tensors& v) { t.add(stream, {v["y"], v["y"], v["y"]}); };
  return c;
}

}  // namespace

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases;
  for (const std::int64_t n : {0, 1, 3, 7, 17, 63, 64, 65, 257, 5000}) {
    for (const auto from : {DType::kF32, DType::kBF16}) {
      for (const auto to : {DType::kF32, DType::kBF16}) cases.push_back(cast(n, from, to));
    }
    for (const float value : {0.0f, 1.0f, -0.3f, 3e38f}) cases.push_back(fill(n, value));
    for (const char* in_place_of : {"", "a", "b"}) cases.push_back(add(n, in_place_of));
    cases.push_back(twice(n));
  }
  return cases;
}

}  // namespace troupe::kernels::parity
