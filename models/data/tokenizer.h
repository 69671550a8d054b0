// Text to token ids and back.
//
// Threads: any; a tokenizer does not change after it was made.
// Errors: decode: kInvalidArgument for an id outside the vocabulary, naming its position. make_tokenizer:
//   kInvalidArgument for an unknown name.
// Limits: encode is given a document in pieces cut at any byte. A tokenizer that merges bytes needs a cut
// rule here. Invariants: decode(encode(x)) == x for any bytes (ByteTokenizer.GivesBackAnyBytes).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace troupe::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;
  virtual std::int32_t vocab_size() const = 0;
  virtual std::int32_t end_of_document() const = 0;
  // Appends the ids of `text`; never appends end_of_document().
  virtual void encode(std::string_view text, std::vector<std::int32_t>& tokens) const = 0;
  // end_of_document() decodes to nothing.
  virtual StatusOr<std::string> decode(std::span<const std::int32_t> tokens) const = 0;
};

// Ids 0..255 are the bytes, 256 ends a document.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t kEndOfDocument = 256, kVocabSize = 257;

  std::string name() const override { return "byte"; }
  std::int32_t vocab_size() const override { return kVocabSize; }
  std::int32_t end_of_document() const override { return kEndOfDocument; }
  void encode(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  StatusOr<std::string> decode(std::span<const std::int32_t> tokens) const override;
};

// By the name a config or a corpus sidecar gives: "byte".
StatusOr<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name);

}  // namespace troupe::data
