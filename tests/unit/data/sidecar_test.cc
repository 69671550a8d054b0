#include "models/data/sidecar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::data {
namespace {

using testing::HasSubstr;

TEST(Sidecar, ComesBackAsItWasWritten) {
  const Sidecar written{.tokenizer = "byte",
                        .vocab_size = 257,
                        .end_of_document = 256,
                        .documents = 3,
                        .tokens = 1LL << 40,
                        .text_bytes = 5,
                        .sources = 2,
                        .content_xxh3 = 0xfedcba9876543210};
  const auto read = parse_sidecar("a.json", to_json(written));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tokenizer, "byte");
  EXPECT_EQ(read->vocab_size, 257);
  EXPECT_EQ(read->end_of_document, 256);
  EXPECT_EQ(read->documents, 3);
  EXPECT_EQ(read->tokens, 1LL << 40);
  EXPECT_EQ(read->text_bytes, 5);
  EXPECT_EQ(read->sources, 2);
  EXPECT_EQ(read->content_xxh3, 0xfedcba9876543210);
}

TEST(Sidecar, NamesTheKeyThatIsWrong) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string json = to_json(
        {.tokenizer = "byte", .vocab_size = 257, .end_of_document = 256, .documents = 3, .tokens = 9});
    json.replace(json.find(from), from.size(), to);
    return std::string(parse_sidecar("a.json", json).status().message());
  };
  EXPECT_THAT(refusal("troupe-corpus", "other"), HasSubstr("a.json: key \"format\" is \"other\""));
  EXPECT_THAT(refusal("\"version\": 1", "\"version\": 2"), HasSubstr("\"version\" is 2; this build reads 1"));
  EXPECT_THAT(refusal("\"tokens\": 9", "\"tokens\": -9"), HasSubstr("key \"tokens\" must be a whole number"));
  EXPECT_THAT(refusal("\"tokens\": 9", "\"tokens\": 1e30"),
              HasSubstr("key \"tokens\" must be a whole number"));
  EXPECT_THAT(refusal("\"vocab_size\": 257", "\"vocab_size\": 4294967297"),
              HasSubstr("key \"vocab_size\" must be"));
  EXPECT_THAT(refusal("\"xxh3\": \"0", "\"xxh3\": \"g"), HasSubstr("16 hex digits"));
  EXPECT_THAT(refusal("\"tokenizer\": \"byte\"", "\"tokenizer\": 7"),
              HasSubstr("key \"tokenizer\" must be a string"));
  EXPECT_THAT(std::string(parse_sidecar("a.json", "[1]").status().message()),
              HasSubstr("a.json: not a JSON object"));
}

}  // namespace
}  // namespace troupe::data
