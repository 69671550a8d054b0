#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/parity/kernels/cases.h"

namespace troupe::kernels::parity {
namespace {

Case embedding(std::int64_t n, std::int64_t channels, bool positions) {
  constexpr std::int64_t kVocabulary = 50, kPositions = 33;
  Case c{.op = "embedding", .name = absl::StrCat(n, "x", channels), .tolerance = kElementwiseTolerance};
  c.exact = !positions;  // a copy
  c.index("tokens", {n}, integers(0, kVocabulary))
      .input("weight", {kVocabulary, channels})
      .output("y", {n, channels});
  if (positions)
    c.index("positions", {n}, integers(0, kPositions)).input("position_weight", {kPositions, channels});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.embedding(stream, {v["y"], v["tokens"], v["weight"], v["positions"], v["position_weight"]});
  };
  return c;
}

Case embedding_gradient(std::int64_t n, std::int64_t channels, std::int64_t vocabulary, bool positions) {
  constexpr std::int64_t kPositions = 33;
  Case c{.op = "embedding_weight_gradient", .name = absl::StrCat(n, "x", channels, " of ", vocabulary)};
  c.tolerance = kWeightGradientTolerance;
  c.same_bits_for_any_threads = true;
  c.index("tokens", {n}, integers(0, vocabulary))
      .input("dy", {n, channels})
      .accumulator("dweight", {vocabulary, channels});
  if (positions)
    c.index("positions", {n}, integers(0, kPositions))
        .accumulator("dposition_weight", {kPositions, channels});
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.embedding_weight_gradient(stream,
                                {v["dweight"], v["dposition_weight"], v["tokens"], v["positions"], v["dy"]});
  };
  return c;
}

struct Head {
  std::int64_t n, channels, vocabulary, padded, chunk;
};
enum class Targets { kAll, kSome, kMasked };

Case head(Head s, Targets targets, bool gradients) {
  Case c{.op = "cross_entropy_head",
         .name = absl::StrCat(s.n, "x", s.channels, ", vocabulary ", s.vocabulary, " of ", s.padded,
                              " rows, chunks of ", s.chunk, ", targets ", static_cast<int>(targets),
                              gradients ? "" : ", forward only"),
         .tolerance = kCrossEntropyTolerance};
  c.scratch_bytes = [s](const Table& table, DType type, int threads) {
    return std::max(cross_entropy_scratch_bytes(s.chunk, s.padded, s.channels),
                    table.matmul_scratch_bytes(s.chunk, s.channels, s.padded, type, threads));
  };
  c.input("x", {s.n, s.channels}).input("weight", {s.padded, s.channels}, normal(0.5));
  c.index("targets", {s.n},
          targets == Targets::kMasked ? values({-1})
          : targets == Targets::kSome ? integers(-1, std::min<std::int64_t>(s.vocabulary, 3))
                                      : integers(0, s.vocabulary));
  c.output_fp32("loss", {s.n}, kCrossEntropyTolerance);
  if (gradients)
    c.output("dx", {s.n, s.channels}).accumulator("dweight", {s.padded, s.channels}, kCrossEntropyTolerance);
  c.call = [s](const Table& t, Stream& stream, const Tensors& v) {
    t.cross_entropy_head(
        stream, {v["loss"], v["x"], v["weight"], v["targets"], s.vocabulary, v["dx"], v["dweight"], s.chunk});
  };
  return c;
}

Case logits(std::int64_t n, std::int64_t channels, std::int64_t padded) {
  Case c{.op = "logits", .name = absl::StrCat(n, "x", channels, "x", padded)};
  c.scratch_bytes = [=](const Table& table, DType type, int threads) {
    return table.matmul_scratch_bytes(n, channels, padded, type, threads);
  };
  c.input("x", {n, channels})
      .input("weight", {padded, channels})
      .output_fp32("logits", {n, padded}, kMatmulTolerance);
  c.call = [](const Table& t, Stream& stream, const Tensors& v) {
    t.logits(stream, {v["logits"], v["x"], v["weight"]});
  };
  return c;
}

}  // namespace

std::vector<Case> vocabulary_cases() {
  std::vector<Case> cases;
  for (const std::int64_t n : {0, 1, 7, 65, 257}) {
    for (const std::int64_t channels : {1, 17, 64, 65}) {
      cases.push_back(embedding(n, channels, channels % 2 == 1 && n % 2 == 1));
      cases.push_back(embedding(n, channels, false));
      cases.push_back(embedding_gradient(n, channels, 50, channels == 17));
      cases.push_back(embedding_gradient(n, channels, 2, false));  // every row hit many times
    }
  }
  constexpr Head kHeads[] = {{1, 16, 1, 1, 256},     {3, 7, 17, 17, 1},       {7, 64, 50, 64, 4},
                             {65, 33, 131, 192, 64}, {130, 64, 257, 257, 64}, {17, 65, 1000, 1024, 256}};
  for (const Head& s : kHeads) {
    for (const bool gradients : {true, false}) {
      cases.push_back(head(s, Targets::kAll, gradients));
      cases.push_back(head(s, Targets::kSome, gradients));
    }
    cases.push_back(head(s, Targets::kMasked, true));
  }
  cases.push_back(head({0, 16, 17, 32, 8}, Targets::kAll, true));
  for (const std::int64_t n : {0, 1, 3, 64}) cases.push_back(logits(n, 65, 257));
  cases.push_back(logits(1, 64, 64));
  return cases;
}

}  // namespace troupe::kernels::parity
