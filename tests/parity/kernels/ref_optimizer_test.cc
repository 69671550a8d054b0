// ref's AdamW against the recurrence written out, its norm and loss sums, and the dropout mask against its
// definition.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/parity/kernels/doubles.h"

namespace troupe::kernels::parity {
namespace {

AdamW usual(const TensorView& master, const TensorView& m, const TensorView& v, const TensorView& g,
            const TensorView& weight) {
  return {.master = master,
          .m = m,
          .v = v,
          .gradient = g,
          .weight = weight,
          .learning_rate = 0.25f,
          .beta1 = 0.5f,
          .beta2 = 0.75f,
          .epsilon = 0.125f,
          .weight_decay = 0.5f,
          .gradient_scale = 0.5f};
}

TEST(RefAdamW, FollowsTheRecurrenceForThreeSteps) {
  Doubles w;
  const auto master = w.of({1}, {2}), m = w.zeros({1}), v = w.zeros({1}), g = w.zeros({1}),
             weight = w.zeros({1});
  double x = 2, m1 = 0,
         v1 = 0;  // the same by hand: all settings are powers of two, so there is nothing to round in them
  const double gradients[] = {3, -1, 0.5};
  for (int step = 1; step <= 3; ++step) {
    ref::store(g, 0, gradients[step - 1]);
    AdamW op = usual(master, m, v, g, weight);
    op.step = step;
    w.run(&Table::adamw, op);
    const double scaled = gradients[step - 1] * 0.5;
    m1 = 0.5 * m1 + 0.5 * scaled;
    v1 = 0.75 * v1 + 0.25 * scaled * scaled;
    double power1 = 1, power2 = 1;
    for (int k = 0; k < step; ++k) power1 *= 0.5, power2 *= 0.75;
    x -= 0.25 * 0.5 * x;
    x -= 0.25 * (m1 / (1 - power1)) / (std::sqrt(v1 / (1 - power2)) + 0.125);
    EXPECT_NEAR(ref::load(m, 0), m1, 1e-15) << step;
    EXPECT_NEAR(ref::load(v, 0), v1, 1e-15) << step;
    EXPECT_NEAR(ref::load(master, 0), x, 1e-14) << step;
    EXPECT_EQ(ref::load(weight, 0), ref::load(master, 0)) << step;
    EXPECT_EQ(ref::load(g, 0), 0) << step;
    // On paper: m = 0.75, v = 0.5625, x = 1.75 - 0.25 * 1.5 / (1.5 + 0.125).
    if (step == 1) {
      EXPECT_NEAR(ref::load(master, 0), 1.519230769230769, 1e-14);
    }
  }
}

TEST(RefAdamW, KeepsTheGradientWhenToldAndRoundsTheWeightFromTheMaster) {
  Doubles w;
  const auto master = w.of({1}, {1}, DType::kF32), m = w.zeros({1}, DType::kF32),
             v = w.zeros({1}, DType::kF32);
  const auto g = w.of({1}, {3}, DType::kF32), weight = w.zeros({1}, DType::kBF16);
  AdamW op = usual(master, m, v, g, weight);
  op.clear_gradient = false;
  w.run(&Table::adamw, op);
  EXPECT_EQ(ref::load(g, 0), 3);
  EXPECT_EQ(ref::load(weight, 0),
            static_cast<double>(static_cast<float>(device::bfloat16(*master.data<float>()))));
  EXPECT_NE(ref::load(weight, 0), ref::load(master, 0));
}

TEST(RefAdamW, WithoutGradientOnlyDecays) {
  Doubles w;
  const auto master = w.of({1}, {2}), m = w.zeros({1}), v = w.zeros({1}), g = w.zeros({1}),
             weight = w.zeros({1});
  w.run(&Table::adamw, usual(master, m, v, g, weight));
  EXPECT_EQ(ref::load(master, 0), 2 - 0.25 * 0.5 * 2);
}

TEST(RefSquaredNorm, SumsEachChunkOnItsOwn) {
  Doubles w;
  const auto x = w.zeros({kNormChunk + 2}), chunks = w.zeros({2});
  ref::store(x, 0, 3);
  ref::store(x, kNormChunk - 1, 4);
  ref::store(x, kNormChunk, 5);
  ref::store(x, kNormChunk + 1, -2);
  w.run(&Table::squared_norm, {chunks, x});
  EXPECT_EQ(w.read(chunks), (std::vector<double>{25, 29}));
}

// CASES T41: the divisor is the number of tokens that count, not the number of tokens.
TEST(RefLossSum, CountsTheTokensThatAreNotMasked) {
  Doubles w;
  const auto total = w.zeros({2});
  w.run(&Table::loss_sum, {total, w.of({4}, {0.5, 0, 2, 0}), w.indices({4}, {7, -1, 0, 3})});
  EXPECT_EQ(w.read(total), (std::vector<double>{2.5, 3}));
}

TEST(RefDropout, KeepsWhatTheStreamOfTheSampleSays) {
  Doubles w;
  constexpr std::int64_t kSamples = 4, kRows = 5, kColumns = 7;
  const auto x = w.random({kSamples * kRows, kColumns}, 1, 10), y = w.zeros({kSamples * kRows, kColumns});
  const auto ids = w.indices({kSamples, 2}, {4, 0, -1, 0, 4, 0, 4, 2});
  const RandomKey key{.seed = 9, .step = 8, .sample = 1234, .layer = 7, .use = 6};
  w.run(&Table::dropout, {y, x, {}, ids, kRows, key, 0.25f});
  int dropped = 0;
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    RandomKey mine = key;
    mine.sample = std::array<std::int64_t, kSamples>{4, 0xffffffff, 4, 0x2'0000'0004}[static_cast<std::size_t>(sample)];
    const RandomStream words(mine);
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
      const bool kept = words.at(static_cast<std::uint64_t>(i)) >= 0x40000000u;  // 0.25 * 2^32
      const auto at = sample * kRows * kColumns + i;
      EXPECT_DOUBLE_EQ(ref::load(y, at), kept ? ref::load(x, at) / 0.75 : 0);
      dropped += kept ? 0 : 1;
    }
  }
  EXPECT_NEAR(dropped, 0.25 * kSamples * kRows * kColumns, 15);
}

// CASES T12: the same sample gets the same mask wherever it stands in a batch, another use gets another.
TEST(RefDropout, GivesTheSameMaskInAnyBatchAndAnotherForAnotherUse) {
  Doubles w;
  const auto mask = [&](const std::vector<std::int64_t>& ids, std::size_t sample, int use) {
    const auto n = static_cast<std::int64_t>(ids.size());
    const auto ones = w.zeros({n * 2, 33}), y = w.zeros({n * 2, 33});
    w.run(&Table::fill, {ones, 1});
    const auto held = w.zeros({n, 2}, DType::kI32);
    for (std::int64_t i = 0; i < n; ++i) put_sample_id(held.data<std::int32_t>(), i, ids[static_cast<std::size_t>(i)]);
    w.run(&Table::dropout, {y, ones, {}, held, 2, {.seed = 1, .use = use}, 0.5f});
    const auto all = w.read(y);
    return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(sample) * 66,
                               all.begin() + static_cast<std::ptrdiff_t>(sample + 1) * 66);
  };
  EXPECT_EQ(mask({5, 6}, 1, 0), mask({6}, 0, 0));
  EXPECT_NE(mask({5, 6}, 0, 0), mask({6}, 0, 0));
  EXPECT_NE(mask({6}, 0, 1), mask({6}, 0, 0));
  EXPECT_NE(mask({6 + (1LL << 32)}, 0, 0), mask({6}, 0, 0));  // not the low half alone
}

}  // namespace
}  // namespace troupe::kernels::parity
