// A tokenized text on disk, read as one long stream of tokens with the places where documents begin.
//
// Threads: any; nothing changes after opening. read() and next_document_begin() touch mapped pages and may
// wait for the
//   disk, so handlers never call them: a storage stream does.
// Owns: its file mappings.
// Errors: open_corpus and read name the file and the byte offset: kNotFound no such file; kInvalidArgument
// not a corpus,
//   another format or version, a folder without corpus, or a vocabulary larger than the model's; kDataLoss an
//   empty, torn or inconsistent file, or a token outside the vocabulary.
// Limits: 64-bit offsets throughout; a read of any size. Do not shorten a file in place while it is open
// (mapped_file.h). Invariants: tokens beyond 4 GiB are read right, CASES T11
// (Corpus.ReadsBeyondFourGibibytes); a hostile file gives an
//   error or valid tokens, never a crash (CorpusFuzz.*).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "models/data/token_type.h"
#include "runtime/base/status.h"

namespace troupe::data {

struct CorpusFacts {
  std::string path{};    // as given
  std::string format{};  // "megatron", "llm.c gpt-2", "llm.c llama-3"
  TokenType token_type = TokenType::kU16;
  std::int64_t tokens = 0;
  std::int64_t files = 1;                         // shards
  std::optional<std::int64_t> documents{};        // llm.c files do not say
  std::string tokenizer{};                        // empty when no sidecar says
  std::int32_t vocab_size = 0;                    // of the tokenizer; 0 when no sidecar says
  std::optional<std::int32_t> end_of_document{};  // the id, where the format or the sidecar knows it
  std::optional<std::uint64_t> content_xxh3{};    // of the token bytes, from the sidecar
};

class Corpus {
 public:
  virtual ~Corpus() = default;

  const CorpusFacts& facts() const { return facts_; }
  std::int64_t tokens() const { return facts_.tokens; }
  // Tokens [begin, begin + out.size()); a range outside the corpus is kOutOfRange.
  virtual Status read(std::int64_t begin, std::span<std::int32_t> out) const = 0;
  // The first position in [from, limit) whose token begins a document, or `limit`. Position 0 always begins
  // one. 0 <= from, limit <= tokens().
  virtual std::int64_t next_document_begin(std::int64_t from, std::int64_t limit) const = 0;
  // Reads everything and compares with the hash in the sidecar (none: ok). kDataLoss names both hashes.
  virtual Status verify_content() const { return ok(); }

 protected:
  explicit Corpus(CorpusFacts facts) : facts_(std::move(facts)) {}
  Status check_range(std::int64_t begin, std::size_t count) const;

 private:
  CorpusFacts facts_;
};

// kDataLoss for a stored token outside the vocabulary: token `position` of the stream, at `offset` of `file`.
Status bad_token_status(const std::string& file, std::int64_t position, std::int64_t offset,
                        std::int64_t value, std::int32_t limit);

struct CorpusOptions {
  std::int32_t vocab_size =
      0;  // of the model; every token read must be below. 0: below what the sidecar says
  std::int32_t end_of_document =
      -1;  // llm.c: the id that ends documents; -1: 50256 (GPT-2) or 128000 (Llama-3)
};

// `path`: prefix (or .bin, or .idx) of a Megatron pair, which is also what `prepare` writes; an llm.c .bin
// file; a folder of llm.c files (*.bin, in order of name); or a pattern of them
// ("fineweb/fineweb_train_*.bin").
StatusOr<std::unique_ptr<Corpus>> open_corpus(const std::string& path, const CorpusOptions& options = {});

}  // namespace troupe::data
