#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

struct Size {
  std::int64_t n, in, out;
};
constexpr Size kSizes[] = {{1, 1, 1},     {1, 64, 257}, {3, 7, 17},    {7, 63, 3},
                           {17, 65, 64},  {63, 17, 65}, {64, 64, 64},  {65, 257, 7},
                           {257, 65, 63}, {64, 257, 1}, {128, 96, 160}};

std::function<std::int64_t(const Table&, DType, int)> scratch(Size s) {
  return [s](const Table& table, DType type, int threads) {
    return table.matmul_scratch_bytes(s.n, s.in, s.out, type, threads);
  };
}

Shape weight_shape(Size s, WeightLayout layout) {
  return layout == WeightLayout::kOutIn ? Shape{s.out, s.in} : Shape{s.in, s.out};
}

std::string name(Size s, WeightLayout layout, const char* more = "") {
  return absl::StrCat(s.n, "x", s.in, "x", s.out, layout == WeightLayout::kOutIn ? " out-in" : " in-out",
                      more);
}

enum class Residual { kNone, kApart, kInPlace };

Case forward(Size s, WeightLayout layout, bool bias, Residual residual) {
  Case c{.op = "matmul", .name = name(s, layout, bias ? " bias" : ""), .tolerance = kMatmulTolerance};
  c.scratch_bytes = scratch(s);
  c.input("x", {s.n, s.in}).input("weight", weight_shape(s, layout));
  if (bias) c.input("bias", {s.out});
  if (residual != Residual::kNone) c.input("residual", {s.n, s.out});
  c.output("y", {s.n, s.out}, residual == Residual::kInPlace ? "residual" : "");
  c.call = [layout](const Table& t, Stream& stream, const Tensors& v) {
    t.matmul(stream, {v["y"], v["x"], v["weight"], v["bias"], v["residual"], layout});
  };
  return c;
}

Case input_gradient(Size s, WeightLayout layout) {
  Case c{.op = "matmul_input_gradient", .name = name(s, layout), .tolerance = kMatmulTolerance};
  c.scratch_bytes = scratch(s);
  c.input("dy", {s.n, s.out}).input("weight", weight_shape(s, layout)).output("dx", {s.n, s.in});
  c.call = [layout](const Table& t, Stream& stream, const Tensors& v) {
    t.matmul_input_gradient(stream, {v["dx"], v["dy"], v["weight"], layout});
  };
  return c;
}

Case weight_gradient(Size s, WeightLayout layout, bool bias) {
  Case c{.op = "matmul_weight_gradient", .name = name(s, layout, bias ? " bias" : "")};
  c.tolerance = kWeightGradientTolerance;
  c.scratch_bytes = scratch(s);
  c.input("dy", {s.n, s.out}).input("x", {s.n, s.in}).accumulator("dweight", weight_shape(s, layout));
  if (bias) c.accumulator("dbias", {s.out});
  c.call = [layout](const Table& t, Stream& stream, const Tensors& v) {
    t.matmul_weight_gradient(stream, {v["dweight"], v["dbias"], v["dy"], v["x"], layout});
  };
  return c;
}

}  // namespace

std::vector<Case> matmul_cases() {
  std::vector<Case> cases;
  for (const auto layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    for (const Size s : kSizes) {
      cases.push_back(forward(s, layout, false, Residual::kNone));
      cases.push_back(input_gradient(s, layout));
      cases.push_back(weight_gradient(s, layout, s.n % 2 == 1));
    }
    for (const Size s : {Size{7, 65, 17}, Size{65, 63, 129}}) {
      cases.push_back(forward(s, layout, true, Residual::kNone));
      cases.push_back(forward(s, layout, false, Residual::kApart));
      cases.push_back(forward(s, layout, true, Residual::kInPlace));
    }
    // An expert without tokens: nothing is written, nothing is added.
    cases.push_back(forward({0, 17, 7}, layout, true, Residual::kNone));
    cases.push_back(input_gradient({0, 17, 7}, layout));
    cases.push_back(weight_gradient({0, 17, 7}, layout, true));
  }
  return cases;
}

}  // namespace troupe::kernels::parity
