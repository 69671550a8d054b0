// Writes a Megatron pair and its sidecar, document by document, in bounded memory.
//
// Life: create (takes PREFIX.*.partial), append and end_document, finish (all on disk under temporary names),
// publish
//   (renamed; .idx last, for a corpus is there when its .idx is). Destroyed before publish, it leaves
//   nothing.
// Threads: one caller; blocks on the disk. Owns: the partial files, under a lock that a second writer is
// refused by. Errors: kAlreadyExists when the corpus is there and `force` is not set; kUnavailable while
// another writer is at work;
//   kResourceExhausted for a full disk; all name the file.
// Limits: tokens uint16 below a vocabulary of 65,500, else int32, as Megatron chooses; a sequence has at most
//   `max_sequence_tokens`, so a longer document takes several (their length is int32 in the format).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/data/sidecar.h"
#include "models/data/token_type.h"
#include "runtime/base/status.h"
#include "runtime/device/storage.h"

struct XXH3_state_s;

namespace troupe::data {

struct CorpusWriterOptions {
  std::int32_t vocab_size = 0;
  bool force = false;  // replace what is there
  std::int64_t max_sequence_tokens = std::int64_t{1} << 30;
};

class CorpusWriter {
 public:
  static StatusOr<std::unique_ptr<CorpusWriter>> create(const std::string& prefix,
                                                        const CorpusWriterOptions& options);
  ~CorpusWriter();
  CorpusWriter(const CorpusWriter&) = delete;
  CorpusWriter& operator=(const CorpusWriter&) = delete;

  Status append(std::span<const std::int32_t> tokens);  // each below vocab_size
  Status end_document();                                // one without tokens is not recorded
  // `facts` without documents, tokens and hash, which the writer knows.
  Status finish(Sidecar facts);
  Status publish();

  const std::string& prefix() const { return prefix_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }

  // Every file a writer of `prefix` may have on disk.
  static std::vector<std::string> files(const std::string& prefix);

 private:
  CorpusWriter(std::string prefix, const CorpusWriterOptions& options, int lock);

  Status open_parts();
  Status end_sequence();
  Status flush_tokens();
  Status write_index();

  std::string prefix_;
  CorpusWriterOptions options_;
  TokenType type_;
  int lock_;  // descriptor of .bin.partial, holding flock(2)
  bool finished_ = false;
  std::optional<device::FileWriter> token_file_, length_file_, document_file_;
  std::vector<std::byte> token_buffer_, length_buffer_, document_buffer_;
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> hash_;
  std::int64_t tokens_ = 0, documents_ = 0, sequences_ = 0;
  std::int64_t sequence_tokens_ = 0, document_tokens_ = 0;  // of the open one
};

}  // namespace troupe::data
