// Turns text files into a corpus: PREFIX.bin, .idx and .json, or with a validation fraction PREFIX_train.*
// and PREFIX_validation.*.
//
// A document is its tokens and the tokenizer's end-of-document id. Whole documents go to one split, by a hash
// of (split_seed, document number): the same text and seed give the same files.
//
// Threads: one caller; blocks on the disk: the storage stream, or the command line.
// Errors: kInvalidArgument bad options or no text in the inputs; kAlreadyExists; kResourceExhausted full
// disk;
//   kFailedPrecondition a split would be empty. After an error nothing new is left on the disk.
// Limits: inputs of any size in a few MiB of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/data/text_source.h"
#include "models/data/tokenizer.h"
#include "runtime/base/status.h"

namespace troupe::data {

struct PrepareOptions {
  std::string output{};            // prefix; missing folders are made
  double validation_fraction = 0;  // of documents, in [0, 1)
  std::uint64_t split_seed = 0;
  std::string split_on{};  // a line that separates documents within a file ("%" for fortunes); empty: none
  bool force = false;      // replace an existing corpus
};

struct SplitReport {
  std::string prefix{};
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;
};

struct PrepareReport {
  SplitReport train;  // everything, when there is no validation split
  std::optional<SplitReport> validation;
  TextCounts text;
};

StatusOr<PrepareReport> prepare(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                                const PrepareOptions& options);

// For people: what was written, what was left out.
std::string to_text(const PrepareReport& report);

}  // namespace troupe::data
