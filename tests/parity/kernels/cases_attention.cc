#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

struct Size {
  std::int64_t batch, tokens;
  int q_heads, kv_heads;
  std::int64_t size;
  std::int64_t columns() const { return (q_heads + 2 * kv_heads) * size; }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(size))); }
};

enum class Documents { kNone, kWhole, kFew, kEachToken };

// document_start of [B, T]: a new document at every multiple of `length`, shifted by the row.
Generator document_start(std::int64_t tokens, Documents documents) {
  return [=](const RandomStream&, std::uint64_t i) -> double {
    const auto row = static_cast<std::int64_t>(i) / tokens, t = static_cast<std::int64_t>(i) % tokens;
    if (documents == Documents::kWhole) return 0;
    if (documents == Documents::kEachToken) return static_cast<double>(t);
    constexpr std::int64_t kLength = 13;
    const auto offset = row * 5 % kLength;
    return static_cast<double>(std::max<std::int64_t>(0, (t + offset) / kLength * kLength - offset));
  };
}

std::string name(Size s, Documents documents, float dropped) {
  return absl::StrCat(s.batch, "x", s.tokens, ", heads ", s.q_heads, "/", s.kv_heads, " of ", s.size,
                      ", documents ", static_cast<int>(documents), dropped > 0 ? ", dropout" : "");
}

AttentionDropout attention_dropout(const Tensors& v, float dropped) {
  return {.sample_ids = v["sample_ids"], .key = {.seed = 42, .step = 17, .sample = 99, .layer = 3, .use = 3}, .probability = dropped};
}

// Documents and samples of [B, T].
void add_rows(Case& c, Size s, Documents documents, float dropped) {
  if (documents != Documents::kNone)
    c.index("document_start", {s.batch, s.tokens}, document_start(s.tokens, documents));
  if (dropped > 0) c.index("sample_ids", {s.batch, 2}, values({7, 3, -5, 0}));
}

Call forward_call(Size s, float dropped) {
  return [s, dropped](const Table& t, Stream& stream, const Tensors& v) {
    t.attention(stream, {v["out"], v["log_sum_exp"], v["qkv"], v["document_start"], s.q_heads, s.kv_heads,
                         s.scale(), attention_dropout(v, dropped)});
  };
}

std::function<std::int64_t(const Table&, DType, int)> scratch(Size s) {
  return [s](const Table& table, DType, int threads) {
    return table.attention_scratch_bytes(s.tokens, s.size, threads);
  };
}

Case forward(Size s, Documents documents, double spread = 1, float dropped = 0) {
  Case c{.op = "attention", .name = name(s, documents, dropped), .tolerance = kAttentionTolerance};
  c.input("qkv", {s.batch, s.tokens, s.columns()}, normal(spread));
  add_rows(c, s, documents, dropped);
  c.output("out", {s.batch, s.tokens, s.q_heads * s.size});
  c.output_fp32("log_sum_exp", {s.batch, s.q_heads, s.tokens}, kAttentionTolerance);
  c.scratch_bytes = scratch(s);
  c.call = forward_call(s, dropped);
  return c;
}

Case backward(Size s, Documents documents, float dropped = 0) {
  Case c{
      .op = "attention_input_gradient", .name = name(s, documents, dropped), .tolerance = kAttentionGradientTolerance};
  c.input("qkv", {s.batch, s.tokens, s.columns()}).input("dout", {s.batch, s.tokens, s.q_heads * s.size});
  add_rows(c, s, documents, dropped);
  c.add({.name = "out", .shape = {s.batch, s.tokens, s.q_heads * s.size}, .derived = true});
  c.statistic("log_sum_exp", {s.batch, s.q_heads, s.tokens});
  c.output("dqkv", {s.batch, s.tokens, s.columns()});
  c.scratch_bytes = scratch(s);
  c.prepare = forward_call(s, dropped);
  c.call = [s, dropped](const Table& t, Stream& stream, const Tensors& v) {
    t.attention_input_gradient(stream, {v["dqkv"], v["dout"], v["out"], v["qkv"], v["log_sum_exp"], v["document_start"],
                                        s.q_heads, s.kv_heads, s.scale(), attention_dropout(v, dropped)});
  };
  return c;
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  const auto both = [&](Size s, Documents documents, float dropped = 0) {
    cases.push_back(forward(s, documents, 1, dropped));
    cases.push_back(backward(s, documents, dropped));
  };
  for (std::int64_t tokens = 1; tokens <= 130; ++tokens) {  // every tile boundary, whatever the tile
    both({1, tokens, 2, 1, 16}, tokens % 2 ? Documents::kNone : Documents::kFew);
  }
  for (const std::int64_t size : {16, 32, 64, 80, 128}) {
    both({2, 33, 4, 2, size}, Documents::kNone);
    both({1, 70, 2, 2, size}, Documents::kFew);
  }
  for (const auto& [q_heads, kv_heads] : {std::pair{1, 1}, {3, 1}, {8, 1}, {8, 2}, {6, 6}}) {
    both({2, 19, q_heads, kv_heads, 32}, Documents::kFew);
  }
  for (const auto documents : {Documents::kNone, Documents::kWhole, Documents::kFew, Documents::kEachToken}) {
    both({3, 65, 4, 2, 32}, documents);
  }
  both({1, 257, 2, 1, 64}, Documents::kNone);
  both({0, 17, 2, 1, 16}, Documents::kNone);
  // The reference knows no tiles: the mask is the same whatever they are, and whichever thread has them.
  for (const std::int64_t tokens : {1, 2, 3, 31, 64, 129, 225, 449}) both({2, tokens, 4, 2, 16}, Documents::kNone, 0.3f);
  both({3, 97, 6, 2, 32}, Documents::kFew, 0.1f);
  both({2, 33, 2, 2, 64}, Documents::kEachToken, 0.5f);
  // Scores up to 250: exp overflows unless shifted. In fp32 such a score is known to 250 * 2^-24 = 1.5e-5,
  // and so is its exp.
  cases.push_back(forward({1, 65, 2, 1, 64}, Documents::kNone, 8));
  cases.back().name += " large scores";
  cases.back().tolerance.fp32 = 3e-5;
  return cases;
}

}  // namespace troupe::kernels::parity
