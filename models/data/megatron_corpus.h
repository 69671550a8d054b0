// Reads a Megatron indexed data set: PREFIX.idx says where sequences and documents lie in PREFIX.bin.
// `prepare` writes the same pair and PREFIX.json, which is read when it is there.
//
// .idx, little-endian: "MMIDIDX\0\0", u64 version 1, u8 token type, u64 sequences S, u64 document indices D,
// then int32 length of S sequences in tokens, int64 byte offset of S sequences, int64 D document indices (0
// first, S last), and perhaps S int8 modes (multimodal; ignored). Source: Megatron-LM
// core/datasets/indexed_dataset.py.
//
// Errors: the whole index is checked when opened: sequences lie back to back from offset 0 to the end of
// .bin, document
//   indices rise from 0 to S (MegatronCorpusOnDisk.Refuses*). Float token types are refused.
// Limits: opening reads all of .idx, some 20 bytes a document.
#pragma once

#include <memory>
#include <string>

#include "models/data/corpus.h"
#include "models/data/mapped_file.h"

namespace troupe::data {

class MegatronCorpus final : public Corpus {
 public:
  static StatusOr<std::unique_ptr<MegatronCorpus>> open(const std::string& prefix,
                                                        const CorpusOptions& options);

  Status read(std::int64_t begin, std::span<std::int32_t> out) const override;
  std::int64_t next_document_begin(std::int64_t from, std::int64_t limit) const override;
  Status verify_content() const override;

 private:
  // Where the three tables of .idx start, and how long they are.
  struct Index {
    TokenType type = TokenType::kU16;
    std::int64_t sequences = 0, document_indices = 0;
    std::size_t lengths_at = 0, pointers_at = 0, documents_at = 0;
  };

  MegatronCorpus(CorpusFacts facts, MappedFile index_file, MappedFile token_file, Index index,
                 std::int32_t limit)
      : Corpus(std::move(facts)),
        index_file_(std::move(index_file)),
        token_file_(std::move(token_file)),
        index_(index),
        limit_(limit) {}

  static StatusOr<Index> parse_header(const MappedFile& file);
  static StatusOr<std::int64_t> check_tables(const MappedFile& file, const MappedFile& tokens,
                                             const Index& index);
  std::int64_t document_begin(std::int64_t document) const;

  MappedFile index_file_, token_file_;
  Index index_;
  std::int32_t limit_;  // tokens are below
};

// True when the file at `path` begins with the magic of a Megatron .idx.
bool is_megatron_index(std::span<const std::byte> bytes);

}  // namespace troupe::data
