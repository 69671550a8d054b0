#include "models/data/llmc_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> read(const Corpus& corpus, std::int64_t begin, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  const Status status = corpus.read(begin, tokens);
  EXPECT_TRUE(status.ok()) << status;
  return tokens;
}

TEST(LlmcCorpus, ReadsGpt2AndLlama3Files) {
  const TempFolder folder;
  write_bytes(folder / "gpt.bin", llmc_gpt2({1, 2, 50256, 65535}));
  write_bytes(folder / "llama.bin", llmc_llama3({1, 128000, 127999}));
  const auto gpt = *open_corpus(folder / "gpt.bin");
  EXPECT_EQ(gpt->facts().format, "llm.c gpt-2");
  EXPECT_EQ(gpt->facts().documents, std::nullopt);
  EXPECT_EQ(read(*gpt, 0, 4), (std::vector<std::int32_t>{1, 2, 50256, 65535}));
  const auto llama = *open_corpus(folder / "llama.bin");
  EXPECT_EQ(llama->facts().token_type, TokenType::kU32);
  EXPECT_EQ(read(*llama, 1, 2), (std::vector<std::int32_t>{128000, 127999}));
  EXPECT_EQ(llama->next_document_begin(1, 3), 2);
}

TEST(LlmcCorpus, ReadsShardsAsOneStreamInOrderOfName) {
  const TempFolder folder;
  write_bytes(folder / "s_2.bin", llmc_gpt2({5, 6}));
  write_bytes(folder / "s_1.bin", llmc_gpt2({1, 2, 50256}));
  write_bytes(folder / "s_3.bin", llmc_gpt2({50256, 8}));
  write_bytes(folder / "notes.txt", "not a shard");
  for (const std::string& path : {folder.path(), folder / "s_*.bin", folder / "s_[123].bin"}) {
    const auto corpus = open_corpus(path);
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    EXPECT_EQ((*corpus)->facts().files, 3);
    EXPECT_EQ(read(**corpus, 0, 7), (std::vector<std::int32_t>{1, 2, 50256, 5, 6, 50256, 8}));
    EXPECT_EQ(read(**corpus, 2, 4), (std::vector<std::int32_t>{50256, 5, 6, 50256}));
    // A document ends with 50256, also at the end of a shard; a shard alone begins none.
    const std::int64_t expected[] = {0, 3, 3, 3, 6, 6, 6, 7};
    for (std::int64_t from = 0; from <= 7; ++from)
      EXPECT_EQ((*corpus)->next_document_begin(from, 7), expected[from]) << from;
    EXPECT_EQ((*corpus)->next_document_begin(4, 6), 6);
  }
}

TEST(LlmcCorpus, EndsDocumentsAtTheGivenId) {
  const TempFolder folder;
  write_bytes(folder / "a.bin", llmc_gpt2({1, 7, 2, 50256, 3}));
  const auto corpus = *open_corpus(folder / "a.bin", {.end_of_document = 7});
  EXPECT_EQ(corpus->next_document_begin(1, 5), 2);
  EXPECT_EQ(corpus->next_document_begin(3, 5), 5);
}

TEST(LlmcCorpus, NamesTheShardOfATokenOutsideTheVocabulary) {
  const TempFolder folder;
  write_bytes(folder / "s_1.bin", llmc_gpt2({1, 2}));
  write_bytes(folder / "s_2.bin", llmc_gpt2({3, 400}));
  const auto corpus = *open_corpus(folder.path(), {.vocab_size = 400});
  std::vector<std::int32_t> tokens(4);
  const Status status = corpus->read(0, tokens);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("s_2.bin: at byte 1026: token 3 is 400, must be from 0 to 399"));
}

TEST(LlmcCorpus, RefusesDamagedFiles) {
  const TempFolder folder;
  const std::string path = folder / "a.bin", good = llmc_gpt2({1, 2, 3});
  const auto with = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return refusal(path);
  };
  EXPECT_EQ(with(good), "");
  EXPECT_THAT(with(""), HasSubstr("a.bin: the file is empty"));
  EXPECT_THAT(with("Once upon a time"), HasSubstr("a.bin: at byte 0: not a token file of llm.c"));
  EXPECT_THAT(with("ab"), HasSubstr("troupe data prepare"));
  EXPECT_THAT(with(good.substr(0, 100)), HasSubstr("at byte 100: ends within the header of 1024 bytes"));
  EXPECT_THAT(with(good.substr(0, 1029)),
              HasSubstr("at byte 1029: ends too early: 3 tokens take 1030 bytes"));
  EXPECT_THAT(with(good + "x"), HasSubstr("at byte 1030: bytes left over"));
  EXPECT_THAT(with(llmc_header(20240520, 2, 1) + "xx"),
              HasSubstr("at byte 4: version 2; llm.c gpt-2 files have version 1"));
  EXPECT_THAT(with(llmc_header(20240801, 1, 1) + "xxxx"), HasSubstr("llm.c llama-3 files have version 7"));
  EXPECT_THAT(with(llmc_header(20240520, 1, 0)), HasSubstr("at byte 8: 0 tokens"));
  EXPECT_THAT(with(llmc_header(20240520, 1, -5)), HasSubstr("at byte 8: -5 tokens"));
  EXPECT_THAT(with(llmc_header(20240522, 1, 1)),
              HasSubstr("multiple-choice evaluation examples, not of tokens"));
  EXPECT_THAT(with(llmc_header(20240326, 3, 1)), HasSubstr("of a model, not of tokens"));
}

TEST(LlmcCorpus, RefusesShardsOfTwoModels) {
  const TempFolder folder;
  write_bytes(folder / "a.bin", llmc_gpt2({1}));
  write_bytes(folder / "b.bin", llmc_llama3({1}));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("b.bin: is of llm.c llama-3, but"));
}

TEST(LlmcCorpus, RefusesToMixTrainAndValidationShards) {
  const TempFolder folder;
  write_bytes(folder / "fineweb_train_000001.bin", llmc_gpt2({1, 2}));
  write_bytes(folder / "fineweb_val_000000.bin", llmc_gpt2({3}));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("shards of both splits"));
  EXPECT_THAT(refusal(folder / "*.bin"), HasSubstr("shards of both splits"));
  EXPECT_EQ((*open_corpus(folder / "*_train_*.bin"))->tokens(), 2);
}

}  // namespace
}  // namespace troupe::data
