#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr Tolerance kStatistic{kNormTolerance.fp32, kNormTolerance.fp32};

Case rms_forward(std::int64_t n, std::int64_t channels, Generator fill, const char* more = "") {
  Case c{.op = "rmsnorm", .name = absl::StrCat(n, "x", channels, more), .tolerance = kNormTolerance};
  c.input("x", {n, channels}, std::move(fill)).input("weight", {channels}, normal(0.2, 1));
  c.output("y", {n, channels}).output_fp32("inverse_rms", {n}, kStatistic);
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.rmsnorm(stream, {v["y"], v["x"], v["weight"], v["inverse_rms"], kEpsilon});
  };
  return c;
}

// `y` of the forward pass that prepares the statistics goes to a field of the case that is overwritten later.
Case rms_input_gradient(std::int64_t n, std::int64_t channels, bool residual,
                        const std::string& in_place_of) {
  Case c{.op = "rmsnorm_input_gradient",
         .name = absl::StrCat(n, "x", channels, " in place of ", in_place_of)};
  c.tolerance = kNormTolerance;
  c.input("dy", {n, channels})
      .input("x", {n, channels}, normal(2))
      .input("weight", {channels}, normal(0.2, 1));
  c.statistic("inverse_rms", {n});
  if (residual) c.input("residual", {n, channels});
  c.output("dx", {n, channels}, in_place_of);
  c.prepare = [](const Table& t, Stream& stream, const Tensors& v) {
    t.rmsnorm(stream, {v["dx"], v["x"], v["weight"], v["inverse_rms"], kEpsilon});
  };
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.rmsnorm_input_gradient(stream,
                             {v["dx"], v["dy"], v["x"], v["weight"], v["inverse_rms"], v["residual"]});
  };
  return c;
}

Case rms_weight_gradient(std::int64_t n, std::int64_t channels) {
  Case c{.op = "rmsnorm_weight_gradient", .name = absl::StrCat(n, "x", channels)};
  c.tolerance = kWeightGradientTolerance;
  c.same_bits_for_any_threads = true;
  c.input("dy", {n, channels}).input("x", {n, channels}, normal(2)).accumulator("dweight", {channels});
  c.input("inverse_rms", {n}, normal(0.05, 0.5));
  c.fields.back().holds = Holds::kFloat32;
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.rmsnorm_weight_gradient(stream, {v["dweight"], v["dy"], v["x"], v["inverse_rms"]});
  };
  return c;
}

Case layer_forward(std::int64_t n, std::int64_t channels, Generator fill, const char* more = "") {
  Case c{.op = "layernorm", .name = absl::StrCat(n, "x", channels, more), .tolerance = kNormTolerance};
  c.input("x", {n, channels}, std::move(fill))
      .input("weight", {channels}, normal(0.2, 1))
      .input("bias", {channels});
  c.output("y", {n, channels})
      .output_fp32("mean", {n}, kStatistic)
      .output_fp32("inverse_std", {n}, kStatistic);
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.layernorm(stream, {v["y"], v["x"], v["weight"], v["bias"], v["mean"], v["inverse_std"], kEpsilon});
  };
  return c;
}

Case layer_input_gradient(std::int64_t n, std::int64_t channels, bool residual,
                          const std::string& in_place_of) {
  Case c{.op = "layernorm_input_gradient",
         .name = absl::StrCat(n, "x", channels, " in place of ", in_place_of)};
  c.tolerance = kNormTolerance;
  c.input("dy", {n, channels})
      .input("x", {n, channels}, normal(2, 0.5))
      .input("weight", {channels}, normal(0.2, 1));
  c.statistic("mean", {n}).statistic("inverse_std", {n});
  if (residual) c.input("residual", {n, channels});
  c.output("dx", {n, channels}, in_place_of);
  c.prepare = [](const Table& t, Stream& stream, const Tensors& v) {
    t.layernorm(stream, {v["dx"], v["x"], v["weight"], v["weight"], v["mean"], v["inverse_std"], kEpsilon});
  };
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.layernorm_input_gradient(
        stream, {v["dx"], v["dy"], v["x"], v["weight"], v["mean"], v["inverse_std"], v["residual"]});
  };
  return c;
}

Case layer_weight_gradient(std::int64_t n, std::int64_t channels) {
  Case c{.op = "layernorm_weight_gradient", .name = absl::StrCat(n, "x", channels)};
  c.tolerance = kWeightGradientTolerance;
  c.input("dy", {n, channels}).input("x", {n, channels}, normal(2));
  for (const auto& [field, fill] :
       {std::pair{"mean", normal(0.1)}, std::pair{"inverse_std", normal(0.05, 0.5)}}) {
    c.input(field, {n}, fill);
    c.fields.back().holds = Holds::kFloat32;
  }
  c.accumulator("dweight", {channels}).accumulator("dbias", {channels});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.layernorm_weight_gradient(stream,
                                {v["dweight"], v["dbias"], v["dy"], v["x"], v["mean"], v["inverse_std"]});
  };
  return c;
}

}  // namespace

std::vector<Case> norm_cases() {
  std::vector<Case> cases;
  for (const auto& [n, channels] : {std::pair<std::int64_t, std::int64_t>{1, 2},
                                    {3, 7},
                                    {17, 63},
                                    {64, 64},
                                    {65, 65},
                                    {7, 257},
                                    {257, 17},
                                    {2, 1024},
                                    {0, 17}}) {
    cases.push_back(rms_forward(n, channels, normal(2)));
    cases.push_back(rms_input_gradient(n, channels, false, ""));
    cases.push_back(rms_weight_gradient(n, channels));
    cases.push_back(layer_forward(n, channels, normal(2, 0.5)));
    // of two channels the true gradient is zero but for epsilon: rounding is all there would be to compare
    if (channels > 2) cases.push_back(layer_input_gradient(n, channels, false, ""));
    cases.push_back(layer_weight_gradient(n, channels));
  }
  for (const char* in_place_of : {"", "dy", "residual"}) {
    cases.push_back(rms_input_gradient(17, 65, true, in_place_of));
    cases.push_back(layer_input_gradient(17, 65, true, in_place_of));
  }
  cases.push_back(rms_forward(3, 65, normal(1e-4), " small"));  // epsilon rules
  cases.push_back(rms_forward(3, 65, values({0}), " zero"));
  cases.push_back(layer_forward(3, 65, normal(1, 30), " mean far from 0"));  // E[x^2] - mean^2 would cancel
  cases.push_back(layer_forward(3, 64, values({3}), " constant"));
  return cases;
}

}  // namespace troupe::kernels::parity
