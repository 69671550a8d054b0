#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

Case adamw(std::int64_t n, std::int64_t step, bool clear, bool weight_is_master) {
  Case c{.op = "adamw",
         .name = absl::StrCat(n, " step ", step, clear ? " clears" : "",
                              weight_is_master ? " weight is master" : ""),
         .tolerance = kOptimizerTolerance};
  const Tolerance fp32{kOptimizerTolerance.fp32, kOptimizerTolerance.fp32};
  c.accumulator("master", {n}, fp32).accumulator("m", {n}, fp32).accumulator("v", {n}, fp32);
  c.fields.back().fill = [](const RandomStream& random, std::uint64_t i) {
    return std::fabs(0.1 * random.normal(i));
  };
  c.accumulator("gradient", {n}, fp32).output("weight", {n}, weight_is_master ? "master" : "");
  if (weight_is_master) c.only = DType::kF32;
  c.call = [=](const Table& t, Stream& stream, const Tensors& v) {
    t.adamw(stream, {.master = v["master"],
                     .m = v["m"],
                     .v = v["v"],
                     .gradient = v["gradient"],
                     .weight = v["weight"],
                     .learning_rate = 3e-2f,
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .epsilon = 1e-8f,
                     .weight_decay = 0.1f,
                     .gradient_scale = 0.125f,
                     .step = step,
                     .clear_gradient = clear});
  };
  return c;
}

Case squared_norm(std::int64_t n) {
  Case c{.op = "squared_norm",
         .name = absl::StrCat(n),
         .tolerance = {1e-13, 1e-13}};  // double sums of exact squares
  c.same_bits_for_any_threads = true;
  c.input("x", {n}, normal(10));
  c.fields.back().holds = Holds::kFloat32;
  c.add({.name = "chunks",
         .shape = {(n + kNormChunk - 1) / kNormChunk},
         .holds = Holds::kFloat64,
         .role = Role::kOutput});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.squared_norm(stream, {v["chunks"], v["x"]});
  };
  return c;
}

Case loss_sum(std::int64_t n, Generator targets) {
  Case c{.op = "loss_sum", .name = absl::StrCat(n), .tolerance = {1e-13, 1e-13}};
  c.same_bits_for_any_threads = true;
  c.input("loss", {n}, normal(1, 5)).index("targets", {n}, std::move(targets));
  c.fields.front().holds = Holds::kFloat32;
  c.add({.name = "total", .shape = {2}, .holds = Holds::kFloat64, .role = Role::kOutput});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.loss_sum(stream, {v["total"], v["loss"], v["targets"]});
  };
  return c;
}

}  // namespace

std::vector<Case> optimizer_cases() {
  std::vector<Case> cases;
  for (const std::int64_t n : {0, 1, 3, 7, 17, 63, 64, 65, 257, 10000}) {
    cases.push_back(adamw(n, 1, true, false));
    cases.push_back(adamw(n, 1000, false, false));
    cases.push_back(adamw(n, 2, true, true));
    cases.push_back(squared_norm(n));
    cases.push_back(loss_sum(n, integers(-1, 4)));
  }
  for (const std::int64_t n : {kNormChunk - 1, kNormChunk, kNormChunk + 1, 3 * kNormChunk + 17}) {
    cases.push_back(squared_norm(n));
  }
  cases.push_back(loss_sum(65, values({-1})));
  return cases;
}

}  // namespace troupe::kernels::parity
