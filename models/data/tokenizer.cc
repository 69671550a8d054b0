#include "models/data/tokenizer.h"

#include "absl/strings/str_cat.h"

namespace troupe::data {

void ByteTokenizer::encode(std::string_view text, std::vector<std::int32_t>& tokens) const {
  tokens.reserve(tokens.size() + text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
}

StatusOr<std::string> ByteTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= kVocabSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", i, " is ", tokens[i], "; the byte tokenizer has ids 0 to ", kVocabSize - 1));
    }
    if (tokens[i] != kEndOfDocument) text.push_back(static_cast<char>(tokens[i]));
  }
  return text;
}

StatusOr<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  return absl::InvalidArgumentError(absl::StrCat("tokenizer \"", name, "\" is not known; known: byte"));
}

}  // namespace troupe::data
