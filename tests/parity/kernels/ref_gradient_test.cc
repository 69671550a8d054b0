// Every *_gradient op of ref against central differences of its forward op, both in fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/parity/kernels/doubles.h"

namespace troupe::kernels::parity {
namespace {

// d(sum y r)/dx by central differences, h^2 error about 1e-10, against what the gradient op gave.
void expect_gradient(const TensorView& x, const std::vector<double>& gradient, const TensorView& y,
                     const TensorView& r, const std::function<void()>& forward) {
  constexpr double kStep = 1e-5;
  const auto loss = [&](std::int64_t i, double value) {
    ref::store(x, i, value);
    forward();
    double sum = 0;
    for (std::int64_t k = 0; k < y.elements(); ++k) sum += ref::load(y, k) * ref::load(r, k);
    return sum;
  };
  double worst = 0, size = 0;
  ASSERT_EQ(static_cast<std::int64_t>(gradient.size()), x.elements());
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double at = ref::load(x, i);
    const double difference = (loss(i, at + kStep) - loss(i, at - kStep)) / (2 * kStep);
    loss(i, at);
    worst = std::max(worst, std::fabs(difference - gradient[static_cast<std::size_t>(i)]));
    size = std::max(size, std::fabs(difference));
  }
  ASSERT_GT(size, 0) << "the gradient is zero everywhere: nothing was tested";
  EXPECT_LT(worst / size, 2e-8);
}

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

TEST(RefGradient, MatmulOfBothLayouts) {
  for (const auto layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    Doubles w;
    const auto x = w.random({3, 4}), y = w.zeros({3, 5}), r = w.random({3, 5}), bias = w.random({5}),
               beside = w.random({3, 5});
    const auto weight = w.random(layout == WeightLayout::kOutIn ? Shape{5, 4} : Shape{4, 5});
    const auto forward = [&] { w.run(&Table::matmul, {y, x, weight, bias, beside, layout}); };
    const auto dx = w.zeros({3, 4}), dweight = w.random(weight.shape()), dbias = w.random({5});
    const auto dweight_before = w.read(dweight), dbias_before = w.read(dbias);
    w.run(&Table::matmul_input_gradient, {dx, r, weight, layout});
    w.run(&Table::matmul_weight_gradient, {dweight, dbias, r, x, layout});
    expect_gradient(x, w.read(dx), y, r, forward);
    expect_gradient(weight, minus(w.read(dweight), dweight_before), y, r, forward);
    expect_gradient(bias, minus(w.read(dbias), dbias_before), y, r, forward);
  }
}

TEST(RefGradient, RmsNorm) {
  Doubles w;
  const auto x = w.random({3, 7}), y = w.zeros({3, 7}), r = w.random({3, 7}), weight = w.random({7}),
             inverse = w.zeros({3});
  const auto forward = [&] { w.run(&Table::rmsnorm, {y, x, weight, inverse, 1e-2f}); };
  const auto dx = w.zeros({3, 7}), beside = w.random({3, 7}), dweight = w.random({7});
  const auto before = w.read(dweight);
  forward();
  w.run(&Table::rmsnorm_input_gradient, {dx, r, x, weight, inverse, beside});
  w.run(&Table::rmsnorm_weight_gradient, {dweight, r, x, inverse});
  expect_gradient(x, minus(w.read(dx), w.read(beside)), y, r, forward);
  expect_gradient(weight, minus(w.read(dweight), before), y, r, forward);
}

TEST(RefGradient, LayerNorm) {
  Doubles w;
  const auto x = w.random({3, 7}, 1, 2), y = w.zeros({3, 7}), r = w.random({3, 7}), weight = w.random({7}),
             bias = w.random({7});
  const auto mean = w.zeros({3}), inverse = w.zeros({3});
  const auto forward = [&] { w.run(&Table::layernorm, {y, x, weight, bias, mean, inverse, 1e-2f}); };
  const auto dx = w.zeros({3, 7}), beside = w.random({3, 7}), dweight = w.random({7}), dbias = w.random({7});
  const auto dweight_before = w.read(dweight), dbias_before = w.read(dbias);
  forward();
  w.run(&Table::layernorm_input_gradient, {dx, r, x, weight, mean, inverse, beside});
  w.run(&Table::layernorm_weight_gradient, {dweight, dbias, r, x, mean, inverse});
  expect_gradient(x, minus(w.read(dx), w.read(beside)), y, r, forward);
  expect_gradient(weight, minus(w.read(dweight), dweight_before), y, r, forward);
  expect_gradient(bias, minus(w.read(dbias), dbias_before), y, r, forward);
}

TEST(RefGradient, QkNormOfQueriesKeysAndCopiedValues) {
  Doubles w;
  const Shape qkv{3, (4 + 2 * 2) * 6};
  const auto x = w.random(qkv), y = w.zeros(qkv), r = w.random(qkv), q = w.random({6}), k = w.random({6}),
             inverse = w.zeros({3, 6});
  const auto forward = [&] { w.run(&Table::qk_norm, {y, x, q, k, inverse, 4, 2, 1e-2f}); };
  const auto dx = w.zeros(qkv), dq = w.random({6}), dk = w.random({6});
  const auto dq_before = w.read(dq), dk_before = w.read(dk);
  forward();
  w.run(&Table::qk_norm_input_gradient, {dx, r, x, q, k, inverse, 4, 2});
  w.run(&Table::qk_norm_weight_gradient, {dq, dk, r, x, inverse, 4, 2});
  expect_gradient(x, w.read(dx), y, r, forward);
  expect_gradient(q, minus(w.read(dq), dq_before), y, r, forward);
  expect_gradient(k, minus(w.read(dk), dk_before), y, r, forward);
}

TEST(RefGradient, RopeIsItsInverse) {
  Doubles w;
  const Shape qkv{3, (2 + 2 * 1) * 4};
  const auto x = w.random(qkv), y = w.zeros(qkv), r = w.random(qkv), positions = w.indices({3}, {0, 5, 117});
  const auto frequency = w.of({2}, {1, 0.3});
  const auto forward = [&] {
    w.run(&Table::cast, {y, x});
    w.run(&Table::rope, {y, positions, frequency, 2, 1, false});
  };
  const auto dx = w.zeros(qkv);
  w.run(&Table::cast, {dx, r});
  w.run(&Table::rope, {dx, positions, frequency, 2, 1, true});
  expect_gradient(x, w.read(dx), y, r, forward);
}

TEST(RefGradient, AttentionWithSharedKeysAndDocuments) {
  for (const bool documents : {false, true}) {
    Doubles w;
    const Shape qkv{2, 5, (4 + 2 * 2) * 3}, out{2, 5, 4 * 3};
    const auto x = w.random(qkv), y = w.zeros(out), r = w.random(out), lse = w.zeros({2, 4, 5});
    const auto start = documents ? w.indices({2, 5}, {0, 0, 2, 2, 2, 0, 1, 1, 1, 4}) : TensorView{};
    const auto forward = [&] { w.run(&Table::attention, {y, lse, x, start, 4, 2, 0.7f}); };
    const auto dx = w.random(qkv);  // written, not accumulated
    forward();
    w.run(&Table::attention_input_gradient, {dx, r, y, x, lse, start, 4, 2, 0.7f});
    expect_gradient(x, w.read(dx), y, r, forward);
  }
}

// CASES T12: backward drops what forward dropped.
TEST(RefGradient, AttentionWithDropout) {
  Doubles w;
  const Shape qkv{2, 5, (4 + 2 * 2) * 3}, out{2, 5, 4 * 3};
  const auto x = w.random(qkv), y = w.zeros(out), r = w.random(out), lse = w.zeros({2, 4, 5});
  const auto start = w.indices({2, 5}, {0, 0, 2, 2, 2, 0, 0, 0, 0, 4});
  const AttentionDropout dropout{.sample_ids = w.indices({2, 2}, {3, 0, 8, 0}), .key = {.seed = 5, .step = 2, .layer = 1, .use = 3}, .probability = 0.4f};
  const auto forward = [&] { w.run(&Table::attention, {y, lse, x, start, 4, 2, 0.7f, dropout}); };
  const auto dx = w.random(qkv);
  forward();
  w.run(&Table::attention_input_gradient, {dx, r, y, x, lse, start, 4, 2, 0.7f, dropout});
  expect_gradient(x, w.read(dx), y, r, forward);
}

TEST(RefGradient, Activations) {
  Doubles w;
  const auto gate_up = w.random({3, 10}), y = w.zeros({3, 5}), r = w.random({3, 5}),
             dgate_up = w.zeros({3, 10});
  w.run(&Table::swiglu_input_gradient, {dgate_up, r, gate_up});
  expect_gradient(gate_up, w.read(dgate_up), y, r, [&] { w.run(&Table::swiglu, {y, gate_up}); });
  for (const auto kind : {GeluKind::kTanh, GeluKind::kExact}) {
    const auto x = w.random({3, 5}, 2), dx = w.zeros({3, 5});
    w.run(&Table::gelu_input_gradient, {dx, r, x, kind});
    expect_gradient(x, w.read(dx), y, r, [&] { w.run(&Table::gelu, {y, x, kind}); });
  }
}

// CASES T12: the mask of backward is the mask of forward.
TEST(RefGradient, DropoutIsItselfWithoutResidual) {
  Doubles w;
  const auto x = w.random({4, 9}), y = w.zeros({4, 9}), r = w.random({4, 9}), beside = w.random({4, 9}),
             dx = w.zeros({4, 9});
  const auto ids = w.indices({2, 2}, {3, 0, 8, 0});
  const RandomKey key{.seed = 5, .step = 2, .layer = 1, .use = 1};
  w.run(&Table::dropout, {dx, r, {}, ids, 2, key, 0.4f});
  expect_gradient(x, w.read(dx), y, r, [&] { w.run(&Table::dropout, {y, x, beside, ids, 2, key, 0.4f}); });
}

TEST(RefGradient, Embedding) {
  Doubles w;
  const auto weight = w.random({5, 3}), positions_weight = w.random({4, 3}), y = w.zeros({4, 3}),
             r = w.random({4, 3});
  const auto tokens = w.indices({4}, {2, 0, 2, 4}), positions = w.indices({4}, {0, 1, 2, 1});
  const auto forward = [&] { w.run(&Table::embedding, {y, tokens, weight, positions, positions_weight}); };
  const auto dweight = w.random({5, 3}), dpositions = w.random({4, 3});
  const auto dweight_before = w.read(dweight), dpositions_before = w.read(dpositions);
  w.run(&Table::embedding_weight_gradient, {dweight, dpositions, tokens, positions, r});
  expect_gradient(weight, minus(w.read(dweight), dweight_before), y, r, forward);
  expect_gradient(positions_weight, minus(w.read(dpositions), dpositions_before), y, r, forward);
}

TEST(RefGradient, CrossEntropyOfPaddedVocabularyWithMaskedTokens) {
  Doubles w;
  const auto x = w.random({4, 3}), weight = w.random({8, 3}), loss = w.zeros({4}),
             targets = w.indices({4}, {6, -1, 0, 3});
  const auto ones = w.of({4}, {1, 1, 1, 1}), dx = w.zeros({4, 3}), dweight = w.random({8, 3});
  const auto before = w.read(dweight);
  w.run(&Table::cross_entropy_head, {loss, x, weight, targets, 7, dx, dweight, 256});
  const auto forward = [&] { w.run(&Table::cross_entropy_head, {loss, x, weight, targets, 7, {}, {}, 256}); };
  expect_gradient(x, w.read(dx), loss, ones, forward);
  expect_gradient(weight, minus(w.read(dweight), before), loss, ones, forward);
}

}  // namespace
}  // namespace troupe::kernels::parity
