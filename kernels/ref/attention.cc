#include "kernels/attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/activation.h"
#include "kernels/ref/element.h"
#include "kernels/ref/run.h"

namespace troupe::kernels::ref {
namespace {

RandomKey key_of(const AttentionDropout& dropout, std::int64_t row) {
  RandomKey key = dropout.key;
  if (dropout.probability > 0) key.sample = sample_id(dropout.sample_ids.data<std::int32_t>(), row);
  return key;
}

// One (row of the batch, query head) of a fused qkv [B, T, (H + 2G) D].
struct Head {
  ConstTensorView qkv, document_start;
  std::int64_t b, h, tokens, q_heads, kv_heads, size;  // size: D
  double scale, dropped;  // the probability of it
  RandomStream words;

  template <class Op>
  Head(const Op& op, std::int64_t row, std::int64_t head)
      : qkv(op.qkv),
        document_start(op.document_start),
        b(row),
        h(head),
        tokens(op.qkv.shape()[1]),
        q_heads(op.q_heads),
        kv_heads(op.kv_heads),
        size(op.qkv.shape()[2] / (op.q_heads + 2 * op.kv_heads)),
        scale(op.scale),
        dropped(op.dropout.probability),
        words(key_of(op.dropout, row)) {}

  std::int64_t kv_head() const { return h / (q_heads / kv_heads); }
  std::int64_t row(std::int64_t t) const { return (b * tokens + t) * (q_heads + 2 * kv_heads) * size; }
  std::int64_t q(std::int64_t t) const { return row(t) + h * size; }
  std::int64_t k(std::int64_t t) const { return row(t) + (q_heads + kv_head()) * size; }
  std::int64_t v(std::int64_t t) const { return row(t) + (q_heads + kv_heads + kv_head()) * size; }
  std::int64_t out(std::int64_t t) const { return ((b * tokens + t) * q_heads + h) * size; }
  std::int64_t log_sum_exp(std::int64_t t) const { return (b * q_heads + h) * tokens + t; }

  // Query t sees keys [first(t), t], itself at least.
  std::int64_t first(std::int64_t t) const {
    const auto start = document_start ? load_index(document_start, b * tokens + t) : 0;
    TROUPE_CHECK(0 <= start && start <= t)
        << "document_start[" << b << ", " << t << "] is " << start << ", must be in [0, " << t << "]";
    return start;
  }
  double score(std::int64_t t, std::int64_t j) const {
    double dot = 0;
    for (std::int64_t d = 0; d < size; ++d) dot += load(qkv, q(t) + d) * load(qkv, k(j) + d);
    return dot * scale;
  }
  // By what dropout multiplies the share of key j.
  double kept(std::int64_t t, std::int64_t j) const {
    if (dropped == 0) return 1;
    const auto word = words.at(static_cast<std::uint64_t>(first_dropout_word(tokens, h, t) + j));
    return word >= dropped * 0x1p32 ? 1 / (1 - dropped) : 0;
  }
};

void forward(const Attention& op, const Head& head) {
  std::vector<double> weights(index(head.tokens));
  for (std::int64_t t = 0; t < head.tokens; ++t) {
    const auto first = head.first(t);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (auto j = first; j <= t; ++j) largest = std::max(largest, weights[index(j)] = head.score(t, j));
    for (auto j = first; j <= t; ++j) sum += weights[index(j)] = std::exp(weights[index(j)] - largest);
    for (auto j = first; j <= t; ++j) weights[index(j)] *= head.kept(t, j);
    for (std::int64_t d = 0; d < head.size; ++d) {
      double value = 0;
      for (auto j = first; j <= t; ++j) value += weights[index(j)] * load(op.qkv, head.v(j) + d);
      store(op.out, head.out(t) + d, value / sum);
    }
    store(op.log_sum_exp, head.log_sum_exp(t), largest + std::log(sum));
  }
}

// Adds this head's part to `sums`, shaped as qkv. P = exp(S - L), dS = P (dP - rowsum(dout out)): Dao 2023,
// algorithm 2. With dropout out = (P * kept) V, so dP and dV go through `kept`; rowsum(P dP) is rowsum(dout out) as before.
void backward(const AttentionInputGradient& op, const Head& head, std::vector<double>& sums) {
  for (std::int64_t t = 0; t < head.tokens; ++t) {
    double delta = 0;
    for (std::int64_t d = 0; d < head.size; ++d)
      delta += load(op.dout, head.out(t) + d) * load(op.out, head.out(t) + d);
    for (auto j = head.first(t); j <= t; ++j) {
      const double p = std::exp(head.score(t, j) - load(op.log_sum_exp, head.log_sum_exp(t)));
      double dp = 0;
      for (std::int64_t d = 0; d < head.size; ++d)
        dp += load(op.dout, head.out(t) + d) * load(op.qkv, head.v(j) + d);
      const double kept = head.kept(t, j), ds = p * (dp * kept - delta) * head.scale;
      for (std::int64_t d = 0; d < head.size; ++d) {
        sums[index(head.q(t) + d)] += ds * load(op.qkv, head.k(j) + d);
        sums[index(head.k(j) + d)] += ds * load(op.qkv, head.q(t) + d);
        sums[index(head.v(j) + d)] += p * kept * load(op.dout, head.out(t) + d);
      }
    }
  }
}

}  // namespace

void run(const Attention& op) {
  for (std::int64_t b = 0; b < op.qkv.shape()[0]; ++b) {
    for (std::int64_t h = 0; h < op.q_heads; ++h) forward(op, Head(op, b, h));
  }
}

void run(const AttentionInputGradient& op) {
  std::vector<double> sums(index(op.qkv.elements()));
  for (std::int64_t b = 0; b < op.qkv.shape()[0]; ++b) {
    for (std::int64_t h = 0; h < op.q_heads; ++h) backward(op, Head(op, b, h), sums);
  }
  for (std::int64_t i = 0; i < op.dqkv.elements(); ++i) store(op.dqkv, i, sums[index(i)]);
}

}  // namespace troupe::kernels::ref
