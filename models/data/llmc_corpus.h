// Reads llm.c token files, one or many shards as one stream.
//
// File: 256 int32 of header, then tokens. Header [0] magic 20240520 with [1] version 1: GPT-2, uint16; magic
// 20240801 with version 7: Llama-3, uint32; [2] number of tokens, below 2^31. Source: llm.c
// dev/data/data_common.py.
//
// Documents: the end-of-text id ends its document, so the token after it begins the next one. llm.c's own
// scripts put the
//   id before each document: the first document of such a file is that id alone.
// Errors: size must be 1024 + tokens * token size; all shards must be of one model.
// Limits: finding a document's begin reads the tokens on the way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/data/corpus.h"
#include "models/data/mapped_file.h"

namespace troupe::data {

class LlmcCorpus final : public Corpus {
 public:
  // `paths` in stream order; `name` is what the user gave.
  static StatusOr<std::unique_ptr<LlmcCorpus>> open(const std::string& name,
                                                    const std::vector<std::string>& paths,
                                                    const CorpusOptions& options);

  Status read(std::int64_t begin, std::span<std::int32_t> out) const override;
  std::int64_t next_document_begin(std::int64_t from, std::int64_t limit) const override;

 private:
  struct Shard {
    MappedFile file;
    std::int64_t begin;  // first token in the stream
    std::int64_t tokens;
  };

  LlmcCorpus(CorpusFacts facts, std::vector<Shard> shards, std::int32_t limit)
      : Corpus(std::move(facts)), shards_(std::move(shards)), limit_(limit) {}

  const Shard& shard_of(std::int64_t token) const;

  std::vector<Shard> shards_;
  std::int32_t limit_;
};

}  // namespace troupe::data
