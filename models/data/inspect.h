// What is in a corpus, for `troupe data inspect`: read through once, every token checked.
//
// Threads: one caller; blocks on the disk for the whole corpus.
// Errors: the first token outside the vocabulary, or content that is not what the sidecar recorded, as
// kDataLoss.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "models/data/corpus.h"
#include "runtime/base/status.h"

namespace troupe::data {

struct CorpusSummary {
  CorpusFacts facts;
  std::int64_t documents = 0;  // that have tokens
  std::int64_t shortest_tokens = 0, longest_tokens = 0;
  double mean_tokens = 0;
  std::array<std::int64_t, 63> lengths{};  // [k]: documents of 2^k to 2^(k+1) - 1 tokens
  std::int32_t largest_token = 0;
  std::string begin;  // the first tokens as text, where the tokenizer is known, else as ids
};

StatusOr<CorpusSummary> summarize(const Corpus& corpus);
std::string to_text(const CorpusSummary& summary);

}  // namespace troupe::data
