// ref's attention against the definition: a T x T matrix of scores, masked entry by entry, softmax row by
// row.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parity/kernels/doubles.h"

namespace troupe::kernels::parity {
namespace {

using Matrix = std::vector<std::vector<double>>;

struct Sizes {
  int batch, tokens, q_heads, kv_heads, size;
};

struct Result {
  std::vector<double> out, log_sum_exp;
};

// `row` is what TensorView qkv holds, `sees(b, t, j)` the mask.
template <class Sees>
Result naive(const std::vector<double>& qkv, Sizes s, double scale, const Sees& sees) {
  const int columns = (s.q_heads + 2 * s.kv_heads) * s.size;
  const auto part = [&](int b, int first_column) {  // [T, D] of one head
    Matrix m(static_cast<std::size_t>(s.tokens), std::vector<double>(static_cast<std::size_t>(s.size)));
    for (int t = 0; t < s.tokens; ++t) {
      for (int d = 0; d < s.size; ++d) {
        m[static_cast<std::size_t>(t)][static_cast<std::size_t>(d)] =
            qkv[static_cast<std::size_t>((b * s.tokens + t) * columns + first_column + d)];
      }
    }
    return m;
  };
  Result result;
  result.out.resize(static_cast<std::size_t>(s.batch * s.tokens * s.q_heads * s.size));
  for (int b = 0; b < s.batch; ++b) {
    for (int h = 0; h < s.q_heads; ++h) {
      const int kv = h * s.kv_heads / s.q_heads;
      const Matrix q = part(b, h * s.size), k = part(b, (s.q_heads + kv) * s.size);
      const Matrix v = part(b, (s.q_heads + s.kv_heads + kv) * s.size);
      for (std::size_t t = 0; t < q.size(); ++t) {
        std::vector<double> p(k.size());
        double sum = 0;
        for (std::size_t j = 0; j < k.size(); ++j) {
          double score = 0;
          for (std::size_t d = 0; d < q[t].size(); ++d) score += q[t][d] * k[j][d];
          p[j] = sees(b, static_cast<int>(t), static_cast<int>(j)) ? std::exp(scale * score) : 0;
          sum += p[j];
        }
        result.log_sum_exp.push_back(std::log(sum));
        for (std::size_t d = 0; d < q[t].size(); ++d) {
          double value = 0;
          for (std::size_t j = 0; j < k.size(); ++j) value += p[j] / sum * v[j][d];
          result.out[((static_cast<std::size_t>(b * s.tokens) + t) * static_cast<std::size_t>(s.q_heads) +
                      static_cast<std::size_t>(h)) *
                         q[t].size() +
                     d] = value;
        }
      }
    }
  }
  return result;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-13) << i;
}

TEST(RefAttention, IsTheMaskedSoftmax) {
  for (const Sizes s :
       {Sizes{1, 1, 1, 1, 2}, Sizes{2, 7, 2, 1, 3}, Sizes{2, 9, 6, 2, 4}, Sizes{1, 17, 3, 3, 5}}) {
    for (const bool documents : {false, true}) {
      Doubles w;
      const auto qkv = w.random({s.batch, s.tokens, (s.q_heads + 2 * s.kv_heads) * s.size});
      const auto out = w.zeros({s.batch, s.tokens, s.q_heads * s.size}),
                 lse = w.zeros({s.batch, s.q_heads, s.tokens});
      // Documents of three tokens in row 0, of four in row 1, and so on.
      const auto start_of = [](int b, int t) { return t - t % (3 + b); };
      std::vector<std::int32_t> starts;
      for (int b = 0; b < s.batch; ++b) {
        for (int t = 0; t < s.tokens; ++t) starts.push_back(start_of(b, t));
      }
      const auto start = documents ? w.indices({s.batch, s.tokens}, starts) : TensorView{};
      w.run(&Table::attention, {out, lse, qkv, start, s.q_heads, s.kv_heads, 0.5f});
      const auto truth = naive(w.read(qkv), s, 0.5, [&](int b, int t, int j) {
        return j <= t && (!documents || start_of(b, t) == start_of(b, j));
      });
      expect_near(w.read(out), truth.out);
      expect_near(w.read(lse), truth.log_sum_exp);
    }
  }
}

// The negative of the mask: what may not be seen changes nothing, what may be seen does.
TEST(RefAttention, SeesNeitherTheFutureNorAnotherDocument) {
  constexpr int kTokens = 6, kColumns = 3 * 2;
  const auto out_at_4 = [&](int changed) {
    Doubles w;
    const auto qkv = w.random({1, kTokens, kColumns}), out = w.zeros({1, kTokens, 2}),
               lse = w.zeros({1, 1, kTokens});
    const auto start = w.indices({1, kTokens}, {0, 0, 0, 3, 3, 3});
    for (int c = 2; changed >= 0 && c < kColumns; ++c)
      ref::store(qkv, changed * kColumns + c, 9);  // its key and value
    w.run(&Table::attention, {out, lse, qkv, start, 1, 1, 1.0f});
    return std::vector<double>{ref::load(out, 4 * 2), ref::load(out, 4 * 2 + 1), ref::load(lse, 4)};
  };
  const auto untouched = out_at_4(-1);
  for (const int hidden : {0, 1, 2, 5}) EXPECT_EQ(out_at_4(hidden), untouched) << hidden;
  for (const int seen : {3, 4}) EXPECT_NE(out_at_4(seen), untouched) << seen;
}

// The outputs of one dropped probability at a time are told apart by values that are powers of 1/16: out = sum of kept(j) / (t + 1) * 16^-j.
TEST(RefAttention, DropsTheSharesThatTheStreamOfTheSampleSays) {
  Doubles w;
  constexpr int kTokens = 5, kHeads = 2, kPitch = 8;  // rows of words are whole Philox blocks
  const auto qkv = w.zeros({2, kTokens, 3 * kHeads}), out = w.zeros({2, kTokens, kHeads}), lse = w.zeros({2, kHeads, kTokens});
  for (std::int64_t row = 0; row < 2 * kTokens; ++row) {
    for (std::int64_t head = 0; head < kHeads; ++head)
      ref::store(qkv, row * 3 * kHeads + 2 * kHeads + head, std::pow(16.0, -static_cast<double>(row % kTokens)));
  }
  const AttentionDropout dropout{.sample_ids = w.indices({2, 2}, {4, 2, -1, 0}), .key = {.seed = 9, .step = 8, .sample = 77, .layer = 7, .use = 6},
                                 .probability = 0.25f};
  w.run(&Table::attention, {out, lse, qkv, {}, kHeads, kHeads, 1.0f, dropout});
  int dropped = 0;
  for (int b = 0; b < 2; ++b) {
    RandomKey key = dropout.key;
    key.sample = b == 0 ? 0x2'0000'0004 : 0xffffffff;
    const RandomStream words(key);
    for (int h = 0; h < kHeads; ++h) {
      for (int t = 0; t < kTokens; ++t) {
        double expected = 0;
        for (int j = 0; j <= t; ++j) {
          const bool kept = words.at(static_cast<std::uint64_t>((h * kTokens + t) * kPitch + j)) >= 0x40000000u;  // 0.25 * 2^32
          if (kept) expected += std::pow(16.0, -j) / 0.75 / (t + 1);
          dropped += kept ? 0 : 1;
        }
        EXPECT_NEAR(ref::load(out, (b * kTokens + t) * kHeads + h), expected, 1e-14);
        EXPECT_NEAR(ref::load(lse, (b * kHeads + h) * kTokens + t), std::log(t + 1.0), 1e-14);  // of the softmax before
      }
    }
  }
  EXPECT_GT(dropped, 5);
  EXPECT_LT(dropped, 30);  // of 60
}

TEST(RefAttention, RefusesADocumentThatStartsAfterItsToken) {
  EXPECT_DEATH(
      {
        Doubles w;
        w.run(&Table::attention, {w.zeros({1, 2, 2}), w.zeros({1, 1, 2}), w.zeros({1, 2, 6}),
                                  w.indices({1, 2}, {0, 2}), 1, 1, 1});
      },
      "document_start\\[0, 1\\] is 2, must be in \\[0, 1\\]");
}

}  // namespace
}  // namespace troupe::kernels::parity
