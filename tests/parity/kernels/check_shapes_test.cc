// What check_shapes refuses, and what it lets pass.
#include "kernels/check_shapes.h"

#include <gtest/gtest.h>

#include "tests/parity/kernels/doubles.h"

namespace troupe::kernels::parity {
namespace {

TensorView fake(DType type, const Shape& shape, std::uintptr_t address) {
  return {reinterpret_cast<void*>(address), type, shape};  // never touched
}

Matmul product(DType type = DType::kF32) {
  return {.y = fake(type, {4, 5}, 0x1000),
          .x = fake(type, {4, 6}, 0x2000),
          .weight = fake(type, {5, 6}, 0x3000),
          .bias = {},
          .residual = {}};
}

TEST(CheckShapes, LetsAWellFormedOperationPass) {
  check_shapes(product());
  check_shapes(product(DType::kBF16));
  Matmul op = product();
  op.layout = WeightLayout::kInOut;
  op.weight = fake(DType::kF32, {6, 5}, 0x3000);
  op.bias = fake(DType::kF32, {5}, 0x4000);
  op.residual = op.y;
  check_shapes(op);
}

TEST(CheckShapes, NamesOpFieldAndBothShapes) {
  Matmul op = product();
  op.weight = fake(DType::kF32, {5, 7}, 0x3000);
  EXPECT_DEATH(
      check_shapes(op),
      "Matmul: weight is fp32 \\[5, 7\\], must be \\[5, 6\\] \\(y fp32 \\[4, 5\\], x fp32 \\[4, 6\\]\\)");
  op = product();
  op.x = fake(DType::kF32, {4, 6, 1}, 0x2000);
  EXPECT_DEATH(check_shapes(op), "Matmul: x is fp32 \\[4, 6, 1\\], must have 2 dims");
  op = product();
  op.weight = {};
  EXPECT_DEATH(check_shapes(op), "Matmul: weight is left out, must be \\[5, 6\\]");
}

TEST(CheckShapes, RefusesTypesThatTheHeaderDoesNotName) {
  Matmul op = product();
  op.weight = fake(DType::kBF16, {5, 6}, 0x3000);
  EXPECT_DEATH(check_shapes(op),
               "Matmul: weight is bf16 \\[5, 6\\], must be bf16 or fp32, one for the whole operation");
  check_shapes(op, Types::kAnyFloat);
  check_shapes(product(DType::kF64), Types::kAnyFloat);
  EXPECT_DEATH(check_shapes(product(DType::kF64)), "y is fp64 \\[4, 5\\], must be bf16 or fp32");
  op = product();
  op.x = fake(DType::kI32, {4, 6}, 0x2000);
  EXPECT_DEATH(check_shapes(op, Types::kAnyFloat), "x is int32 \\[4, 6\\], must be fp32, bf16 or fp64");
  MatmulWeightGradient gradient{
      .dweight = fake(DType::kBF16, {5, 6}, 0x1000), .dbias = {}, .dy = product().y, .x = product().x};
  gradient.dy = fake(DType::kF32, {4, 5}, 0x5000);
  EXPECT_DEATH(check_shapes(gradient), "dweight is bf16 \\[5, 6\\], must be fp32");
}

TEST(CheckShapes, RefusesAnOutputThatOverlapsWhatItMayNot) {
  Matmul op = product();
  op.y = fake(DType::kF32, {4, 5}, 0x2000 + 4 * 6 * 4 - 4);  // the last element of x
  EXPECT_DEATH(check_shapes(op), "Matmul: y fp32 \\[4, 5\\] overlaps x fp32 \\[4, 6\\], must be apart");
  op.y = fake(DType::kF32, {4, 5}, 0x2000 + 4 * 6 * 4);  // right behind it
  check_shapes(op);
  op.residual = fake(DType::kF32, {4, 5}, 0x2000 + 4 * 6 * 4 + 4);
  EXPECT_DEATH(check_shapes(op), "y .* overlaps residual .*, must be the same memory and type, or apart");
}

TEST(CheckShapes, RefusesInPlaceWhereTypesDiffer) {
  const Cast same{fake(DType::kF32, {8}, 0x1000), fake(DType::kF32, {8}, 0x1000)};
  check_shapes(same);
  const Cast other{fake(DType::kBF16, {8}, 0x1000), fake(DType::kF32, {8}, 0x1000)};
  EXPECT_DEATH(check_shapes(other), "Cast: y bf16 \\[8\\] overlaps x fp32 \\[8\\]");
  const Cast fewer{fake(DType::kBF16, {7}, 0x2000), fake(DType::kF32, {8}, 0x1000)};
  EXPECT_DEATH(check_shapes(fewer), "Cast: must be as many elements in y as in x, is 7");
}

TEST(CheckShapes, TakesOperationsWithoutRows) {
  check_shapes(RmsNorm{fake(DType::kF32, {0, 5}, 0x1000), fake(DType::kF32, {0, 5}, 0x1000),
                       fake(DType::kF32, {5}, 0x1000), fake(DType::kF32, {0}, 0x1000)});
}

// Shapes that agree: 4 heads of 2, 2 of keys and values.
Attention attention_of_two_groups() {
  return {.out = fake(DType::kF32, {1, 3, 8}, 0x1000),
          .log_sum_exp = fake(DType::kF32, {1, 4, 3}, 0x2000),
          .qkv = fake(DType::kF32, {1, 3, 16}, 0x3000),
          .document_start = {},
          .q_heads = 4,
          .kv_heads = 2};
}

TEST(CheckShapes, RefusesHeadsThatDoNotDivide) {
  Attention op = attention_of_two_groups();
  check_shapes(op);
  op.kv_heads = 3;
  EXPECT_DEATH(check_shapes(op), "Attention: must be kv_heads >= 1, a divisor of q_heads, is 3");
  op.kv_heads = 1;
  EXPECT_DEATH(
      check_shapes(op),
      "Attention: qkv is \\[1, 3, 16\\], its last dim must be a multiple of q_heads \\+ 2 kv_heads = 6");
}

TEST(CheckShapes, RefusesDropoutOfAttentionWithoutSamples) {
  Attention op = attention_of_two_groups();
  op.dropout.probability = 1.0f;
  EXPECT_DEATH(check_shapes(op), "Attention: must be 0 <= probability < 1, is 1");
  op.dropout.probability = 0.1f;
  EXPECT_DEATH(check_shapes(op), "Attention: .*sample_ids");
  op.dropout.sample_ids = fake(DType::kI32, {1, 2}, 0x4000);
  check_shapes(op);
}

TEST(CheckShapes, RefusesHalfOfAnOptionalPair) {
  CrossEntropyHead op{.loss = fake(DType::kF32, {2}, 0x1000),
                      .x = fake(DType::kF32, {2, 3}, 0x2000),
                      .weight = fake(DType::kF32, {8, 3}, 0x3000),
                      .targets = fake(DType::kI32, {2}, 0x4000),
                      .vocabulary = 7,
                      .dx = {},
                      .dweight = {}};
  check_shapes(op);
  op.dx = fake(DType::kF32, {2, 3}, 0x5000);
  EXPECT_DEATH(check_shapes(op),
               "CrossEntropyHead: dx is given but dweight is left out, must be both or none");
  op.dx = {};
  op.vocabulary = 9;
  EXPECT_DEATH(check_shapes(op), "CrossEntropyHead: must be 1 <= vocabulary <= rows of weight, is 9");
}

TEST(CheckShapes, RefusesScalarsOutOfRange) {
  Dropout op{.y = fake(DType::kF32, {6, 3}, 0x1000),
             .x = fake(DType::kF32, {6, 3}, 0x2000),
             .residual = {},
             .sample_ids = fake(DType::kI32, {3, 2}, 0x3000),
             .rows_per_sample = 2,
             .key = {},
             .probability = 0.5f};
  check_shapes(op);
  op.probability = 1;
  EXPECT_DEATH(check_shapes(op), "Dropout: must be 0 <= probability < 1, is 1");
  op.probability = 0;
  op.rows_per_sample = 4;
  EXPECT_DEATH(check_shapes(op), "Dropout: must be rows_per_sample >= 1, a divisor of N, is 4");
}

// Every field of the fp64 world is taken by ref, and only there.
TEST(CheckShapes, RunWhenAnOperationIsEnqueued) {
  EXPECT_DEATH(
      {
        Doubles w;
        w.run(&Table::add, {w.zeros({2}), w.zeros({2}), w.zeros({3})});
      },
      "Add: b is fp64 \\[3\\], must be \\[2\\]");
}

}  // namespace
}  // namespace troupe::kernels::parity
