#include "models/data/megatron_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::int32_t> read_all(const Corpus& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.tokens()));
  const Status status = corpus.read(0, tokens);
  EXPECT_TRUE(status.ok()) << status;
  return tokens;
}

class MegatronCorpusOnDisk : public testing::Test {
 protected:
  void write(const IndexFile& index, const std::string& tokens) {
    write_bytes(folder_ / "a.idx", index.bytes());
    write_bytes(folder_ / "a.bin", tokens);
  }

  TempFolder folder_;
  const std::string prefix_ = folder_ / "a";
};

TEST_F(MegatronCorpusOnDisk, ReadsTokensAndDocuments) {
  write_pair(prefix_, {{5, 6, 7}, {8}, {9, 65535}});
  for (const std::string& path : {prefix_, prefix_ + ".bin", prefix_ + ".idx"}) {
    const auto corpus = open_corpus(path);
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    EXPECT_EQ((*corpus)->facts().format, "megatron");
    EXPECT_EQ((*corpus)->facts().documents, 3);
    EXPECT_EQ(read_all(**corpus), (std::vector<std::int32_t>{5, 6, 7, 8, 9, 65535}));
  }
}

TEST_F(MegatronCorpusOnDisk, FindsWhereDocumentsBegin) {
  write_pair(prefix_, {{5, 6, 7}, {8}, {}, {9, 10}});
  const auto corpus = *open_corpus(prefix_);
  const std::int64_t expected[] = {0, 3, 3, 3, 4, 6, 6};  // the first begin at or after 0, 1, ... 6
  for (std::int64_t from = 0; from <= 6; ++from)
    EXPECT_EQ(corpus->next_document_begin(from, 6), expected[from]) << from;
  EXPECT_EQ(corpus->next_document_begin(1, 2), 2);
  EXPECT_EQ(corpus->next_document_begin(1, 3), 3);
}

TEST_F(MegatronCorpusOnDisk, TakesDocumentsOfSeveralSequences) {
  write({.lengths = {2, 1, 3}, .documents = {0, 2, 3}}, fields<std::uint16_t>({1, 2, 3, 4, 5, 6}));
  const auto corpus = *open_corpus(prefix_);
  EXPECT_EQ(corpus->facts().documents, 2);
  EXPECT_EQ(corpus->next_document_begin(1, 6), 3);
}

template <class T>
std::string three_tokens() {
  return fields<T>({1, 100, 127});
}

TEST_F(MegatronCorpusOnDisk, ReadsEveryIntegerType) {
  const std::tuple<int, std::int64_t, std::string> types[] = {
      {1, 1, three_tokens<std::uint8_t>()}, {2, 1, three_tokens<std::int8_t>()},
      {3, 2, three_tokens<std::int16_t>()}, {4, 4, three_tokens<std::int32_t>()},
      {5, 8, three_tokens<std::int64_t>()}, {8, 2, three_tokens<std::uint16_t>()}};
  for (const auto& [code, size, tokens] : types) {
    write({.type_code = code, .token_bytes = size, .lengths = {1, 2}}, tokens);
    const auto corpus = open_corpus(prefix_);
    ASSERT_TRUE(corpus.ok()) << code << " " << corpus.status();
    EXPECT_EQ(read_all(**corpus), (std::vector<std::int32_t>{1, 100, 127})) << code;
  }
}

TEST_F(MegatronCorpusOnDisk, RefusesNegativeAndHugeTokensWhenReadingThem) {
  write({.type_code = 5, .token_bytes = 8, .lengths = {3}},
        fields<std::int64_t>({1, std::int64_t{1} << 40, -3}));
  const auto corpus = *open_corpus(prefix_);
  std::vector<std::int32_t> one(1);
  EXPECT_TRUE(corpus->read(0, one).ok());
  EXPECT_THAT(std::string(corpus->read(1, one).message()),
              AllOf(HasSubstr("a.bin: at byte 8: token 1 is 1099511627776")));
  EXPECT_THAT(std::string(corpus->read(2, one).message()),
              AllOf(HasSubstr("a.bin: at byte 16: token 2 is -3")));
}

TEST_F(MegatronCorpusOnDisk, RefusesTokensOutsideTheVocabularyByPositionAndValue) {
  write_pair(prefix_, {{5, 6, 300}, {8}});
  const auto corpus = *open_corpus(prefix_, {.vocab_size = 300});
  std::vector<std::int32_t> tokens(3);
  const Status status = corpus->read(1, tokens);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.bin: at byte 4: token 2 is 300, must be from 0 to 299"));
  EXPECT_TRUE((*open_corpus(prefix_, {.vocab_size = 301}))->read(1, tokens).ok());
}

TEST_F(MegatronCorpusOnDisk, RefusesRangesOutside) {
  write_pair(prefix_, {{5, 6, 7}});
  const auto corpus = *open_corpus(prefix_);
  std::vector<std::int32_t> two(2);
  EXPECT_TRUE(absl::IsOutOfRange(corpus->read(2, two)));
  EXPECT_TRUE(absl::IsOutOfRange(corpus->read(-1, two)));
  EXPECT_TRUE(absl::IsOutOfRange(corpus->read(std::int64_t{1} << 62, two)));
  EXPECT_TRUE(corpus->read(1, two).ok());
}

TEST_F(MegatronCorpusOnDisk, RefusesDamagedHeaders) {
  const IndexFile good{.lengths = {2, 1}};
  const std::string tokens = fields<std::uint16_t>({1, 2, 3});
  write(good, tokens);
  ASSERT_TRUE(open_corpus(prefix_).ok());

  IndexFile bad = good;
  bad.magic[0] = 'X';
  write(bad, tokens);
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.idx: at byte 0: not a Megatron index"));
  bad = good;
  bad.version = 2;
  write(bad, tokens);
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.idx: at byte 9: version 2; this build reads version 1"));
  for (const int code : {0, 6, 7, 9, 255}) {
    bad = good;
    bad.type_code = code;
    write(bad, tokens);
    EXPECT_THAT(refusal(prefix_), HasSubstr("a.idx: at byte 17: token type code " + std::to_string(code)));
  }
  write_bytes(folder_ / "a.idx", "");
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.idx: the index is empty"));
  write_bytes(folder_ / "a.idx", good.bytes().substr(0, 30));
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.idx: at byte 30: ends within the header"));
}

TEST_F(MegatronCorpusOnDisk, RefusesIndicesThatDoNotFitTheirFile) {
  const IndexFile index{.lengths = {2, 1}};
  write(index, fields<std::uint16_t>({1, 2, 3}));
  std::string bytes = index.bytes();
  write_bytes(folder_ / "a.idx", bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(refusal(prefix_), HasSubstr("ends too early: 2 sequences and 3 document indices"));
  write_bytes(folder_ / "a.idx", bytes + "x");
  EXPECT_THAT(refusal(prefix_), HasSubstr("1 bytes too many"));
  write_bytes(folder_ / "a.idx", bytes + "xx");  // two sequences: modes of a multimodal set
  EXPECT_TRUE(open_corpus(prefix_).ok());
  // Counts whose byte sizes overflow 64 bits.
  for (const std::size_t at : {18u, 26u}) {
    std::string huge = bytes;
    huge.replace(at, 8, field<std::uint64_t>(-1));
    write_bytes(folder_ / "a.idx", huge);
    EXPECT_THAT(refusal(prefix_), HasSubstr("ends too early"));
    huge.replace(at, 8, field<std::uint64_t>(std::int64_t{1} << 62));
    write_bytes(folder_ / "a.idx", huge);
    EXPECT_THAT(refusal(prefix_), HasSubstr("ends too early"));
  }
}

TEST_F(MegatronCorpusOnDisk, RefusesTablesThatContradict) {
  const IndexFile index{.lengths = {2, 1}};
  const std::string tokens = fields<std::uint16_t>({1, 2, 3}), good = index.bytes();
  write(index, tokens);
  const auto patched = [&](std::size_t at, const std::string& with) {
    std::string bytes = good;
    write_bytes(folder_ / "a.idx", bytes.replace(at, with.size(), with));
    return refusal(prefix_);
  };
  EXPECT_THAT(patched(34, field<std::int32_t>(-1)), HasSubstr("at byte 34: sequence 0 has length -1"));
  EXPECT_THAT(patched(34 + 8 + 8, field<std::int64_t>(2)),
              HasSubstr("at byte 50: sequence 1 starts at byte 2 of"));
  EXPECT_THAT(patched(34 + 8 + 8, field<std::int64_t>(-4)),
              HasSubstr("at byte 50: sequence 1 starts at byte -4"));
  const std::size_t documents = 34 + 8 + 16;
  EXPECT_THAT(patched(documents, field<std::int64_t>(1)),
              HasSubstr("at byte 58: first document index is 1, must be 0"));
  EXPECT_THAT(patched(documents + 8, field<std::int64_t>(7)),
              HasSubstr("document index 1 is 7, must be from 0 to 2"));
  EXPECT_THAT(patched(documents + 8, field<std::int64_t>(-1)), HasSubstr("document index 1 is -1"));
  EXPECT_THAT(patched(documents + 16, field<std::int64_t>(1)),
              HasSubstr("last document index is 1, must be 2"));
  EXPECT_THAT(patched(18, field<std::uint64_t>(0)),
              HasSubstr("at byte 18: no sequences: the corpus is empty"));
  EXPECT_THAT(patched(26, field<std::uint64_t>(1)), HasSubstr("at byte 26: 1 document indices"));
}

TEST_F(MegatronCorpusOnDisk, RefusesTokenFilesOfAnotherSize) {
  const IndexFile index{.lengths = {2, 1}};
  write(index, fields<std::uint16_t>({1, 2}));
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.bin: at byte 4: ends too early: sequence 1 of"));
  write(index, fields<std::uint16_t>({1, 2, 3, 4}));
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.bin: at byte 6: 2 bytes after the last sequence"));
  write({.lengths = {0}}, "");
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.bin: the corpus is empty"));
  std::filesystem::remove(folder_ / "a.bin");
  EXPECT_TRUE(absl::IsNotFound(open_corpus(prefix_).status()));
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.bin"));
}

TEST_F(MegatronCorpusOnDisk, ChecksItsSidecar) {
  write_pair(prefix_, {{5, 6}, {7}});
  const auto sidecar = [&](int tokens, int vocab) {
    write_bytes(folder_ / "a.json",
                "{\"format\": \"troupe-corpus\", \"version\": 1, \"tokenizer\": \"byte\", \"vocab_size\": " +
                    std::to_string(vocab) +
                    ", \"end_of_document\": 256, \"documents\": 2, \"tokens\": " + std::to_string(tokens) +
                    ", \"text_bytes\": 1, \"sources\": 1, \"xxh3\": \"0000000000000001\"}");
  };
  sidecar(3, 257);
  const auto corpus = open_corpus(prefix_);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ((*corpus)->facts().vocab_size, 257);
  EXPECT_EQ((*corpus)->facts().tokenizer, "byte");
  EXPECT_EQ((*corpus)->facts().end_of_document, 256);
  EXPECT_TRUE(absl::IsDataLoss((*corpus)->verify_content()));  // the hash above is not that of the tokens
  EXPECT_THAT(refusal(prefix_, {.vocab_size = 256}),
              HasSubstr("has 257 ids, the model's vocabulary only 256"));
  EXPECT_TRUE(open_corpus(prefix_, {.vocab_size = 300}).ok());
  sidecar(4, 257);
  EXPECT_THAT(refusal(prefix_), HasSubstr("a.json: says 4 tokens in 2 documents"));
  sidecar(3, 7);  // its own vocabulary is checked when the model's is not given
  std::vector<std::int32_t> tokens(3);
  EXPECT_THAT(std::string((*open_corpus(prefix_))->read(0, tokens).message()),
              HasSubstr("token 2 is 7, must be from 0 to 6"));
}

}  // namespace
}  // namespace troupe::data
