// The optimizer alone on given gradients, against torch.optim.AdamW (tests/parity/golden/adamw.safetensors).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"
#include "runtime/device/host_stream.h"
#include "tests/parity/models/golden_file.h"

namespace troupe::parity {
namespace {

constexpr double kTolerance = 1e-6;

// fp32 in ordinary memory, seen as a tensor.
struct Floats {
  std::vector<float> values;
  explicit Floats(std::size_t size) : values(size) {}
  explicit Floats(const std::vector<double>& from) { assign(from.begin(), from.end()); }
  template <class Iterator>
  void assign(Iterator from, Iterator to) {
    values.clear();
    for (; from != to; ++from) values.push_back(static_cast<float>(*from));
  }
  device::TensorView view() {
    return {values.data(), device::DType::kF32, device::Shape{static_cast<std::int64_t>(values.size())}};
  }
  std::vector<double> doubles() const { return {values.begin(), values.end()}; }
};

struct Parameter {
  std::string name;
  Floats master, m, v, gradient;
  std::vector<double> gradients;  // of all steps
  bool decays;
};

class AdamW : public testing::TestWithParam<const kernels::Table& (*)()> {};

TEST_P(AdamW, FollowsTorchForTenSteps) {
  const auto& kernels = GetParam()();
  const GoldenFile golden("adamw");
  device::HostStream stream("adamw", 1);
  std::vector<Parameter> parameters;
  for (const auto& name : golden.names("param/")) {
    const auto values = golden.floats("param/" + name);
    parameters.push_back({name, Floats(values), Floats(values.size()), Floats(values.size()),
                          Floats(values.size()), golden.floats("grad/" + name), name != "vector"});
  }
  ASSERT_EQ(parameters.size(), 3u);
  const auto rates = golden.floats("steps/lr"), norms = golden.floats("steps/grad_norm");
  bool clipped = false, unclipped = false;
  for (std::int64_t step = 1; step <= 10; ++step) {
    const auto at = static_cast<std::size_t>(step - 1);
    double squares = 0;
    for (auto& p : parameters) {
      const auto size = static_cast<std::ptrdiff_t>(p.master.values.size());
      const auto from = p.gradients.begin() + (step - 1) * size;
      p.gradient.assign(from, from + size);
      double chunk = 0;
      kernels.squared_norm(stream, {.chunks = {&chunk, device::DType::kF64, {1}}, .x = p.gradient.view()});
      stream.synchronize();
      squares += chunk;
    }
    const double norm = std::sqrt(squares), clip = std::min(1.0, 1.0 / (norm + 1e-6));
    EXPECT_NEAR(norm, norms[at], kTolerance * norms[at]) << "step " << step;
    (clip < 1 ? clipped : unclipped) = true;
    for (auto& p : parameters) {
      kernels.adamw(stream, {.master = p.master.view(),
                             .m = p.m.view(),
                             .v = p.v.view(),
                             .gradient = p.gradient.view(),
                             .weight = p.master.view(),
                             .learning_rate = static_cast<float>(rates[at]),
                             .weight_decay = p.decays ? 0.1f : 0.0f,
                             .gradient_scale = static_cast<float>(clip),
                             .step = step});
    }
    stream.synchronize();
    if (step != 1 && step != 2 && step != 10) continue;
    const auto prefix = "step" + std::to_string(step) + "/";
    for (const auto& p : parameters) {
      EXPECT_LE(error(p.master.doubles(), golden.floats(prefix + p.name)), kTolerance) << prefix << p.name;
      EXPECT_LE(error(p.m.doubles(), golden.floats(prefix + "m/" + p.name)), kTolerance)
          << prefix << "m/" << p.name;
      EXPECT_LE(error(p.v.doubles(), golden.floats(prefix + "v/" + p.name)), kTolerance)
          << prefix << "v/" << p.name;
    }
  }
  EXPECT_TRUE(clipped && unclipped) << "the file no longer has norms on both sides of the clip";
}

INSTANTIATE_TEST_SUITE_P(Tables, AdamW, testing::Values(&kernels::cpu::table, &kernels::ref::table),
                         [](const auto& row) { return row.index == 0 ? "cpu" : "ref"; });

}  // namespace
}  // namespace troupe::parity
