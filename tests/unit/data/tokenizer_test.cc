#include "models/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::data {
namespace {

TEST(ByteTokenizer, GivesBackAnyBytes) {
  std::string text;
  for (int round = 0; round < 2; ++round) {
    for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  }
  const ByteTokenizer tokenizer;
  std::vector<std::int32_t> tokens;
  tokenizer.encode(text, tokens);
  ASSERT_EQ(tokens.size(), 512u);
  EXPECT_EQ(tokens[200], 200);
  EXPECT_EQ(*tokenizer.decode(tokens), text);
}

TEST(ByteTokenizer, AppendsAndDecodesTheEndOfADocumentToNothing) {
  const ByteTokenizer tokenizer;
  std::vector<std::int32_t> tokens{tokenizer.end_of_document()};
  tokenizer.encode("ab", tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{256, 97, 98}));
  EXPECT_EQ(*tokenizer.decode(tokens), "ab");
  EXPECT_LT(tokenizer.end_of_document(), tokenizer.vocab_size());
}

TEST(ByteTokenizer, RefusesIdsOutsideItsVocabulary) {
  for (const std::int32_t id : {-1, 257}) {
    const std::vector<std::int32_t> tokens{97, id};
    const auto text = ByteTokenizer().decode(tokens);
    EXPECT_TRUE(absl::IsInvalidArgument(text.status()));
    EXPECT_THAT(std::string(text.status().message()), testing::HasSubstr("token 1 is " + std::to_string(id)));
  }
}

TEST(MakeTokenizer, KnowsByteOnly) {
  EXPECT_EQ((*make_tokenizer("byte"))->vocab_size(), 257);
  EXPECT_THAT(std::string(make_tokenizer("bpe").status().message()),
              testing::HasSubstr("\"bpe\" is not known; known: byte"));
}

}  // namespace
}  // namespace troupe::data
