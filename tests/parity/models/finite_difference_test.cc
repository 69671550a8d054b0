// Gradients of whole tiny models against central differences of the loss, all in double with the reference
// kernels.
//
// The difference is of fourth order, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h: with h = 1e-3 it leaves
// out h^4 / 30 of the fifth derivative, and rounding of the loss, 1e-16 / h, is of the same size: both are
// far below the tolerance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"
#include "runtime/base/rng.h"
#include "tests/parity/models/golden_file.h"
#include "tests/parity/models/whole_model.h"

namespace troupe::parity {
namespace {

using models::Family;

constexpr double kDifferenceTolerance = 1e-6;  // of the tensor's largest gradient
constexpr double kStep = 1e-3;
constexpr std::size_t kAllBelow = 64, kSampled = 24;

struct Case {
  const char* name;
  Family family;
  std::int64_t layers, heads, kv_heads, head_dim;
  bool tied;
  double dropout = 0;
  bool packed = false;
  models::Recompute recompute = models::Recompute::kNone;
};

models::ModelConfig config_of(const Case& c) {
  return {.family = c.family,
          .vocabulary = 11,
          .padded_vocabulary = 16,
          .layers = c.layers,
          .hidden = 16,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .intermediate = 20,
          .max_seq_len = 8,
          .norm_epsilon = 1e-5,
          .rope_theta = 100,
          .rope_scaling = {},
          .tied_embeddings = c.tied,
          .dropout = c.dropout};
}

// B 2, T 6. Two targets are masked; packed rows hold documents of 2 and 4, and of 5 and 1 tokens.
Batch batch_of(const Case& c) {
  Batch b{.batch = 2,
          .tokens = {3, 0, 7, 10, 3, 5, 1, 1, 9, 4, 10, 2},
          .targets = {0, 7, 10, -1, 5, 8, 1, 9, 4, 10, 2, -1},
          .positions = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5},
          .document_start = std::vector<std::int32_t>(12, 0),
          .sample_ids = {41, 7}};
  if (c.packed) {
    b.positions = {0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0};
    b.document_start = {0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 0, 5};
  }
  return b;
}

// Normal numbers of deviation 0.3; around one for what scales a norm.
void randomize(WholeModel& model) {
  std::int32_t use = 0;
  for (const auto& name : model.names()) {
    const RandomStream random({.seed = 5, .use = use++});
    auto values = model.parameter(name);
    const bool scale = name.ends_with("norm.weight") || name.find(".ln_") != std::string::npos;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = (scale ? 1 : 0) + 0.3 * random.normal(i);
    model.set_parameter(name, values);
  }
}

WholeModel::Setup setup_of(const Case& c) {
  return {.config = config_of(c),
          .geometry = {2, 6, device::DType::kF64},
          .kernels = kernels::ref::table(),
          .recompute = c.recompute,
          .seed = 9};
}

double difference(WholeModel& model, const std::string& name, std::size_t i) {
  auto values = model.parameter(name);
  const double middle = values[i];
  const auto at = [&](double offset) {
    values[i] = middle + offset;
    model.set_parameter(name, values);
    return model.loss();
  };
  const double near = at(kStep) - at(-kStep), far = at(2 * kStep) - at(-2 * kStep);
  at(0);
  return (8 * near - far) / (12 * kStep);
}

// All elements of a small tensor; of a large one every k-th, so that each part of a fused one is met.
std::vector<std::size_t> sample(std::size_t size) {
  std::vector<std::size_t> chosen;
  const std::size_t every = size <= kAllBelow ? 1 : size / kSampled | 1;
  for (std::size_t i = 0; i < size; i += every) chosen.push_back(i);
  return chosen;
}

class FiniteDifference : public testing::TestWithParam<Case> {};

TEST_P(FiniteDifference, AgreesWithEveryParametersGradient) {
  WholeModel model(setup_of(GetParam()));
  randomize(model);
  model.set_batch(batch_of(GetParam()));
  model.loss_and_gradients();
  double worst = 0;
  for (const auto& name : model.names()) {
    const auto gradient = model.gradient(name);
    double largest = 0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
    ASSERT_GT(largest, 1e-4) << name << " has no gradient to speak of";
    for (const auto i : sample(gradient.size())) {
      const double numeric = difference(model, name, i);
      ASSERT_NEAR(gradient[i], numeric, kDifferenceTolerance * largest) << name << "[" << i << "]";
      worst = std::max(worst, std::abs(gradient[i] - numeric) / largest);
    }
  }
  RecordProperty("worst", testing::PrintToString(worst));
}

constexpr Case kCases[] = {
    {"gpt2", Family::kGpt2, 2, 2, 2, 8, true},
    {"gpt2_dropout", Family::kGpt2, 2, 2, 2, 8, true, 0.2},
    {"llama", Family::kLlama, 2, 4, 2, 4, false},
    {"llama_packed_tied", Family::kLlama, 1, 4, 1, 4, true, 0, true},
    {"llama_dropout_full_recompute", Family::kLlama, 2, 2, 1, 8, false, 0.2, false, models::Recompute::kFull},
    {"qwen2", Family::kQwen2, 2, 4, 2, 4, false},
    {"qwen2_packed", Family::kQwen2, 1, 2, 2, 8, true, 0, true},
    {"qwen3", Family::kQwen3, 2, 4, 2, 6, true},
    {"qwen3_selective_recompute", Family::kQwen3, 1, 2, 1, 8, false, 0, true, models::Recompute::kSelective},
};

INSTANTIATE_TEST_SUITE_P(Models, FiniteDifference, testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

// What the cases above rest on: dropout and document masks do change the loss, and the same seed draws the
// same mask.
TEST(FiniteDifference, DropsAndMasksAreReal) {
  const auto loss = [](Case c, std::uint64_t seed) {
    auto setup = setup_of(c);
    setup.seed = seed;
    WholeModel model(setup);
    randomize(model);
    model.set_batch(batch_of(c));
    return model.loss();
  };
  const Case plain{"", Family::kGpt2, 2, 2, 2, 8, true};
  Case drops = plain, packed = plain;
  drops.dropout = 0.2;
  packed.packed = true;
  EXPECT_EQ(loss(drops, 9), loss(drops, 9));
  EXPECT_NE(loss(drops, 9), loss(drops, 10));
  EXPECT_NE(loss(drops, 9), loss(plain, 9));
  EXPECT_NE(loss(packed, 9), loss(plain, 9));
}

// The negative: gradients of a model that sees across documents are not those of one that does not.
TEST(FiniteDifference, SeesGradientsOfAnotherMask) {
  const Case packed{"", Family::kLlama, 1, 2, 1, 8, false, 0, true};
  Case whole = packed;
  whole.packed = false;
  WholeModel model(setup_of(packed));
  randomize(model);
  model.set_batch(batch_of(whole));
  model.loss_and_gradients();
  model.set_batch(batch_of(packed));
  for (const auto& name : model.names()) {
    const auto gradient = model.gradient(name);
    double largest = 0, worst = 0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
    for (const auto i : sample(gradient.size()))
      worst = std::max(worst, std::abs(gradient[i] - difference(model, name, i)));
    EXPECT_GT(worst, 100 * kDifferenceTolerance * largest) << name;
  }
}

}  // namespace
}  // namespace troupe::parity
