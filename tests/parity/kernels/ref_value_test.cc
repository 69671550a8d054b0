// ref against values worked out on paper.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/parity/kernels/doubles.h"

namespace troupe::kernels::parity {
namespace {

using List = std::vector<double>;

void expect_near(const TensorView& got, const List& expected) {
  const List list = Doubles::read(got);
  ASSERT_EQ(list.size(), expected.size());
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_NEAR(list[i], expected[i], 1e-14) << i;
}

TEST(RefMatmul, MultipliesByRowsOrColumnsOfTheWeight) {
  Doubles w;
  const auto x = w.of({2, 2}, {1, 2, 3, 4}), weight = w.of({2, 2}, {5, 6, 7, 8}), y = w.zeros({2, 2});
  w.run(&Table::matmul, {y, x, weight, {}, {}, WeightLayout::kOutIn});
  EXPECT_EQ(w.read(y), (List{17, 23, 39, 53}));
  w.run(&Table::matmul, {y, x, weight, {}, {}, WeightLayout::kInOut});
  EXPECT_EQ(w.read(y), (List{19, 22, 43, 50}));
  w.run(&Table::matmul, {y, x, weight, w.of({2}, {100, 200}), y, WeightLayout::kOutIn});
  EXPECT_EQ(w.read(y), (List{136, 245, 182, 303}));
}

TEST(RefMatmul, AddsToTheWeightGradient) {
  Doubles w;
  const auto dy = w.of({2, 1}, {2, 3}), x = w.of({2, 2}, {1, 10, 100, 1000});
  const auto dweight = w.of({1, 2}, {0.5, 0.25}), dbias = w.of({1}, {7});
  w.run(&Table::matmul_weight_gradient, {dweight, dbias, dy, x, WeightLayout::kOutIn});
  EXPECT_EQ(w.read(dweight), (List{302.5, 3020.25}));
  EXPECT_EQ(w.read(dbias), (List{12}));
}

TEST(RefRmsNorm, DividesByTheRootMeanSquare) {
  Doubles w;
  const auto y = w.zeros({1, 2}), inverse = w.zeros({1});
  w.run(&Table::rmsnorm, {y, w.of({1, 2}, {3, 4}), w.of({2}, {1, 10}), inverse, 0});
  expect_near(inverse, {std::sqrt(2.0) / 5});
  expect_near(y, {3 * std::sqrt(2.0) / 5, 8 * std::sqrt(2.0)});
}

// 4 / sqrt(12.5) = 1.13137 is 1.1328125 in bf16; times 5.3125 is 6.0181, in bf16 6.03125. Rounded once it
// were 6.0.
TEST(RefRmsNorm, RoundsTheNormalisedValueBeforeTheWeight) {
  Doubles w;
  const auto type = DType::kBF16;
  const auto y = w.zeros({1, 2}, type);
  w.run(&Table::rmsnorm,
        {y, w.of({1, 2}, {3, 4}, type), w.of({2}, {1, 5.3125}, type), w.zeros({1}, DType::kF32), 0});
  EXPECT_EQ(ref::load(y, 1), 6.03125);
}

TEST(RefLayerNorm, CentresAndDividesByTheBiasedDeviation) {
  Doubles w;
  const auto y = w.zeros({1, 2}), mean = w.zeros({1}), inverse = w.zeros({1});
  w.run(&Table::layernorm,
        {y, w.of({1, 2}, {1, 5}), w.of({2}, {10, 10}), w.of({2}, {0, 1}), mean, inverse, 0});
  EXPECT_EQ(w.read(mean), (List{3}));
  EXPECT_EQ(w.read(inverse), (List{0.5}));
  EXPECT_EQ(w.read(y), (List{-10, 11}));
}

TEST(RefQkNorm, NormsQueriesAndKeysAndCopiesValues) {
  Doubles w;
  const auto y = w.zeros({1, 8}), inverse = w.zeros({1, 3});  // 2 q heads, 1 k head, 1 v head of size 2
  w.run(&Table::qk_norm, {y, w.of({1, 8}, {1, 1, 2, -2, 4, 4, 3, 5}), w.of({2}, {1, 2}), w.of({2}, {10, 20}),
                          inverse, 2, 1, 0});
  EXPECT_EQ(w.read(y), (List{1, 2, 1, -2, 10, 20, 3, 5}));
  EXPECT_EQ(w.read(inverse), (List{1, 0.5, 0.25}));
}

// CASES T53: dim i is paired with i + D / 2 (Hugging Face), not with i + 1 (Meta).
TEST(RefRope, TurnsHalfSplitPairs) {
  Doubles w;
  const auto qkv = w.of({2, 12}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  const auto positions = w.indices({2}, {0, 2});
  const auto frequency = w.of({2}, {1, 0.5});
  w.run(&Table::rope, {qkv, positions, frequency, 1, 1, false});
  const double c2 = std::cos(2.0), s2 = std::sin(2.0), c1 = std::cos(1.0), s1 = std::sin(1.0);
  const List turned{c2 - 3 * s2, 2 * c1 - 4 * s1, 3 * c2 + s2, 4 * c1 + 2 * s1};
  List expected{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};  // position 0 turns nothing
  expected.insert(expected.end(), turned.begin(), turned.end());
  expected.insert(expected.end(), turned.begin(), turned.end());
  expected.insert(expected.end(), {1, 2, 3, 4});  // v
  expect_near(qkv, expected);
  w.run(&Table::rope, {qkv, positions, frequency, 1, 1, true});
  expect_near(qkv, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
}

TEST(RefActivation, HasTheKnownValues) {
  Doubles w;
  const auto y = w.zeros({1, 3});
  w.run(&Table::swiglu, {y, w.of({1, 6}, {0, 1, -1, 5, 2, 10})});
  expect_near(y, {0, 2 * 0.731058578630004879, -10 * 0.268941421369995121});
  w.run(&Table::gelu, {y, w.of({1, 3}, {0, 1, -1}), GeluKind::kExact});  // x times the normal distribution
  expect_near(y, {0, 0.841344746068542949, -0.158655253931457051});
  w.run(&Table::gelu,
        {y, w.of({1, 3}, {0, 1, -1}), GeluKind::kTanh});  // 0.5 (1 + tanh(0.797884560802865 * 1.044715))
  expect_near(y, {0, 0.841191990608276, -0.158808009391724});
}

TEST(RefEmbedding, AddsUpRepeatedTokens) {
  Doubles w;
  const auto dweight = w.of({3, 1}, {1, 1, 1});
  w.run(&Table::embedding_weight_gradient,
        {dweight, {}, w.indices({3}, {2, 0, 2}), {}, w.of({3, 1}, {10, 20, 40})});
  EXPECT_EQ(w.read(dweight), (List{21, 1, 51}));
}

// Logits 0 and ln 2: probabilities 1/3 and 2/3. The third row is padding. CASES T44.
TEST(RefCrossEntropy, LeavesPaddingRowsAndMaskedTokensAlone) {
  Doubles w;
  const double ln2 = std::log(2.0);
  const auto x = w.of({2, 1}, {1, 1}), weight = w.of({3, 1}, {0, ln2, 50}), loss = w.zeros({2}),
             dx = w.of({2, 1}, {9, 9});
  const auto dweight = w.of({3, 1}, {0, 0, 7});
  w.run(&Table::cross_entropy_head, {loss, x, weight, w.indices({2}, {1, -1}), 2, dx, dweight, 1});
  expect_near(loss, {std::log(1.5), 0});
  expect_near(dx, {-ln2 / 3, 0});
  expect_near(dweight, {1.0 / 3, -1.0 / 3, 7});
}

TEST(RefCrossEntropy, RefusesATargetOutsideTheVocabulary) {
  EXPECT_DEATH(
      {
        Doubles w;
        w.run(&Table::cross_entropy_head,
              {w.zeros({1}), w.zeros({1, 1}), w.zeros({3, 1}), w.indices({1}, {2}), 2, {}, {}, 1});
      },
      "targets\\[0\\] is 2, must be -1 or in \\[0, 2\\)");
}

TEST(RefElement, RoundsToBf16Once) {
  // A double just above the tie between 1 and 1 + 2^-7: by way of a float it would fall on the tie and then
  // to 1.
  EXPECT_EQ(ref::round_to(DType::kBF16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(ref::round_to(DType::kBF16, 1 + 0x1p-8 - 0x1p-40), 1);
  EXPECT_EQ(ref::round_to(DType::kBF16, 1 + 0x1p-8), 1);                   // a tie goes to even
  EXPECT_EQ(ref::round_to(DType::kBF16, 1 + 3 * 0x1p-8), 1 + 2 * 0x1p-7);  // the other way
  EXPECT_EQ(ref::round_to(DType::kBF16, -(1 + 0x1p-8 + 0x1p-40)), -(1 + 0x1p-7));
  EXPECT_EQ(ref::round_to(DType::kBF16, 1e300), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(ref::round_to(DType::kBF16, std::nan(""))));
}

}  // namespace
}  // namespace troupe::kernels::parity
