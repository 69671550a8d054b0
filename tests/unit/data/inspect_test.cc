#include "models/data/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/data/prepare.h"
#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Summarize, CountsAPreparedCorpus) {
  const TempFolder folder;
  write_bytes(folder / "f", "a\n%\nbcdefgh\n%\n\x01x\n");
  ASSERT_TRUE(prepare({folder / "f"}, ByteTokenizer(), {.output = folder / "out", .split_on = "%"}).ok());
  const auto summary = summarize(**open_corpus(folder / "out"));
  ASSERT_TRUE(summary.ok()) << summary.status();
  // Documents with their ends: 3, 9 and 4 tokens.
  EXPECT_EQ(summary->documents, 3);
  EXPECT_EQ(summary->shortest_tokens, 3);
  EXPECT_EQ(summary->longest_tokens, 9);
  EXPECT_NEAR(summary->mean_tokens, 16.0 / 3, 1e-12);
  EXPECT_EQ(summary->lengths[1], 1);
  EXPECT_EQ(summary->lengths[2], 1);
  EXPECT_EQ(summary->lengths[3], 1);
  EXPECT_EQ(summary->largest_token, 256);
  EXPECT_EQ(summary->begin, "\"a\\nbcdefgh\\n\\x01x\\n\"");
  EXPECT_THAT(to_text(*summary),
              AllOf(HasSubstr("megatron, uint16 tokens, 1 file\n"), HasSubstr("tokens      16\n"),
                    HasSubstr("257 ids (byte), largest id seen 256"), HasSubstr("as recorded")));
}

TEST(Summarize, CountsDocumentsOfLlmcFiles) {
  const TempFolder folder;
  write_bytes(folder / "a.bin", llmc_gpt2({1, 2, 50256, 4, 5, 6}));
  const auto summary = summarize(**open_corpus(folder / "a.bin"));
  EXPECT_EQ(summary->documents, 2);
  EXPECT_EQ(summary->lengths[1], 2);
  EXPECT_EQ(summary->begin, "ids 1 2 50256 4 5 6");
  EXPECT_THAT(to_text(*summary),
              AllOf(HasSubstr("not recorded, largest id seen 50256"), HasSubstr("no hash recorded")));
}

TEST(Summarize, FindsATokenOutsideTheVocabularyAnywhere) {
  const TempFolder folder;
  std::vector<std::int64_t> tokens(3'000'000, 5);  // several pieces
  tokens[2'500'000] = 700;
  write_bytes(folder / "a.bin", llmc_gpt2(tokens));
  EXPECT_TRUE(summarize(**open_corpus(folder / "a.bin")).ok());
  const auto summary = summarize(**open_corpus(folder / "a.bin", {.vocab_size = 700}));
  EXPECT_TRUE(absl::IsDataLoss(summary.status()));
  EXPECT_THAT(std::string(summary.status().message()), HasSubstr("token 2500000 is 700"));
}

}  // namespace
}  // namespace troupe::data
