#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

struct Size {
  std::int64_t n;
  int q_heads, kv_heads;
  std::int64_t size;
  std::int64_t columns() const { return (q_heads + 2 * kv_heads) * size; }
  std::int64_t normed() const { return q_heads + kv_heads; }
};
constexpr Size kSizes[] = {{1, 1, 1, 16},  {3, 2, 1, 32},   {7, 4, 2, 64},
                           {17, 6, 2, 80}, {65, 3, 3, 128}, {0, 2, 1, 16}};
constexpr float kEpsilon = 1e-6f;

std::string name(Size s) {
  return absl::StrCat(s.n, " rows, heads ", s.q_heads, "/", s.kv_heads, " of ", s.size);
}

Case norm(Size s) {
  Case c{.op = "qk_norm", .name = name(s), .tolerance = kNormTolerance};
  c.input("x", {s.n, s.columns()}, normal(2))
      .input("q_weight", {s.size}, normal(0.2, 1))
      .input("k_weight", {s.size});
  c.output("y", {s.n, s.columns()}).output_fp32("inverse_rms", {s.n, s.normed()}, kNormTolerance);
  c.call = [s](const Table& t, Stream& stream, const Tensors& v) {
    t.qk_norm(stream, {v["y"], v["x"], v["q_weight"], v["k_weight"], v["inverse_rms"], s.q_heads, s.kv_heads,
                       kEpsilon});
  };
  return c;
}

Case norm_input_gradient(Size s, const char* in_place_of) {
  Case c{.op = "qk_norm_input_gradient", .name = name(s) + in_place_of, .tolerance = kNormTolerance};
  c.input("dy", {s.n, s.columns()}).input("x", {s.n, s.columns()}, normal(2));
  c.input("q_weight", {s.size}, normal(0.2, 1))
      .input("k_weight", {s.size})
      .statistic("inverse_rms", {s.n, s.normed()});
  c.output("dx", {s.n, s.columns()}, in_place_of);
  c.prepare = [s](const Table& t, Stream& stream, const Tensors& v) {
    t.qk_norm(stream, {v["dx"], v["x"], v["q_weight"], v["k_weight"], v["inverse_rms"], s.q_heads, s.kv_heads,
                       kEpsilon});
  };
  c.call = [s](const Table& t, Stream& stream, const Tensors& v) {
    t.qk_norm_input_gradient(stream, {v["dx"], v["dy"], v["x"], v["q_weight"], v["k_weight"],
                                      v["inverse_rms"], s.q_heads, s.kv_heads});
  };
  return c;
}

Case norm_weight_gradient(Size s) {
  Case c{.op = "qk_norm_weight_gradient", .name = name(s), .tolerance = kWeightGradientTolerance};
  c.input("dy", {s.n, s.columns()}).input("x", {s.n, s.columns()}, normal(2));
  c.input("inverse_rms", {s.n, s.normed()}, normal(0.05, 0.5));
  c.fields.back().holds = Holds::kFloat32;
  c.accumulator("dq_weight", {s.size}).accumulator("dk_weight", {s.size});
  c.call = [s](const Table& t, Stream& stream, const Tensors& v) {
    t.qk_norm_weight_gradient(
        stream, {v["dq_weight"], v["dk_weight"], v["dy"], v["x"], v["inverse_rms"], s.q_heads, s.kv_heads});
  };
  return c;
}

Case rope(Size s, bool inverse, Generator positions, const char* more) {
  Case c{
      .op = "rope", .name = name(s) + more + (inverse ? " inverse" : ""), .tolerance = kElementwiseTolerance};
  c.add({.name = "qkv", .shape = {s.n, s.columns()}, .role = Role::kUpdated, .fill = normal()});
  c.index("positions", {s.n}, std::move(positions));
  const auto half = static_cast<double>(s.size / 2);
  c.add({.name = "inverse_frequency",
         .shape = {s.size / 2},
         .holds = Holds::kFloat32,
         .fill = [half](const RandomStream&,
                        std::uint64_t i) { return std::pow(10000.0, -static_cast<double>(i) / half); },
         .same_in_reference = true});
  c.call = [s, inverse](const Table& t, Stream& stream, const Tensors& v) {
    t.rope(stream, {v["qkv"], v["positions"], v["inverse_frequency"], s.q_heads, s.kv_heads, inverse});
  };
  return c;
}

}  // namespace

std::vector<Case> qk_cases() {
  std::vector<Case> cases;
  for (const Size s : kSizes) {
    cases.push_back(norm(s));
    cases.push_back(norm_input_gradient(s, ""));
    cases.push_back(norm_input_gradient(s, "dy"));
    cases.push_back(norm_weight_gradient(s));
    for (const bool inverse : {false, true}) {
      cases.push_back(rope(s, inverse, integers(0, 2048), ""));
      cases.push_back(
          rope(s, inverse, integers(120000, 131072), " far"));  // long contexts: angles of 1e5 radians
    }
  }
  return cases;
}

}  // namespace troupe::kernels::parity
