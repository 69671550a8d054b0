#include "models/data/corpus.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::HasSubstr;

void write_at(const std::string& path, std::int64_t offset, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY);
  ASSERT_GE(file, 0);
  EXPECT_EQ(pwrite(file, bytes.data(), bytes.size(), offset), static_cast<ssize_t>(bytes.size()));
  close(file);
}

// CASES T11: sparse files of 5 GiB, which take no room on the disk.
constexpr std::int64_t kFiveGibibytes = std::int64_t{5} << 30;

TEST(Corpus, ReadsBeyondFourGibibytes) {
  const TempFolder folder;
  constexpr std::int64_t kTokens = kFiveGibibytes / 2;
  IndexFile index{.lengths = {1'000'000'000, 1'300'000'000, kTokens - 2'300'000'000}};
  write_bytes(folder / "big.idx", index.bytes());
  write_bytes(folder / "big.bin", "");
  ASSERT_EQ(truncate((folder / "big.bin").c_str(), kFiveGibibytes), 0);
  // Token 2,300,000,000 lies at byte 4.6e9; 2^32 bytes before it another value, which a 32-bit offset would
  // find.
  constexpr std::int64_t kFar = 2'300'000'000;
  write_at(folder / "big.bin", kFar * 2, field<std::uint16_t>(4321));
  write_at(folder / "big.bin", kFar * 2 - (std::int64_t{1} << 32), field<std::uint16_t>(1111));
  write_at(folder / "big.bin", kFiveGibibytes - 2, field<std::uint16_t>(99));

  const auto corpus = open_corpus(folder / "big");
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ((*corpus)->tokens(), kTokens);
  std::vector<std::int32_t> tokens(3);
  ASSERT_TRUE((*corpus)->read(kFar - 1, tokens).ok());
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{0, 4321, 0}));
  tokens.resize(1);
  ASSERT_TRUE((*corpus)->read(kTokens - 1, tokens).ok());
  EXPECT_EQ(tokens[0], 99);
  EXPECT_EQ((*corpus)->next_document_begin(1'000'000'001, kTokens), kFar);
}

TEST(Corpus, ReadsLlmcFilesBeyondFourGibibytes) {
  const TempFolder folder;
  constexpr std::int64_t kTokens = kFiveGibibytes / 4;
  for (const char* name : {"s_1.bin", "s_2.bin"}) {
    write_bytes(folder / name, llmc_header(20240801, 7, kTokens));
    ASSERT_EQ(truncate((folder / name).c_str(), 1024 + kFiveGibibytes), 0);
  }
  write_at(folder / "s_2.bin", 1024 + (kTokens - 1) * 4, field<std::uint32_t>(77));
  write_at(folder / "s_2.bin", 1024 + (kTokens - 2) * 4, field<std::uint32_t>(128000));
  const auto corpus = open_corpus(folder.path());
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ((*corpus)->tokens(), 2 * kTokens);
  std::vector<std::int32_t> tokens(2);
  ASSERT_TRUE((*corpus)->read(2 * kTokens - 2, tokens).ok());
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{128000, 77}));
  EXPECT_EQ((*corpus)->next_document_begin(2 * kTokens - 5, 2 * kTokens), 2 * kTokens - 1);
}

TEST(OpenCorpus, RefusesWhatIsNoCorpus) {
  const TempFolder folder;
  EXPECT_THAT(refusal(""), HasSubstr("path is empty"));
  EXPECT_TRUE(absl::IsNotFound(open_corpus(folder / "nothing").status()));
  EXPECT_THAT(refusal(folder / "nothing"), HasSubstr("nothing: no corpus there"));
  EXPECT_THAT(refusal(folder / "no*.bin"), HasSubstr("no file matches the pattern"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("folder without token files"));
  write_bytes(folder / "story.txt", "Once upon a time");
  EXPECT_THAT(refusal(folder / "story.txt"), HasSubstr("troupe data prepare"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("folder without token files"));
  ASSERT_EQ(mkfifo((folder / "pipe.bin").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder / "pipe.bin"), HasSubstr("pipe.bin is not a regular file"));
}

TEST(OpenCorpus, SaysWhatToNameInstead) {
  const TempFolder folder;
  write_pair(folder / "text_train", {{1, 2}});
  EXPECT_THAT(refusal(folder / "text"), HasSubstr("text_train or"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("Megatron corpora; name one"));
  write_bytes(folder / "lost.bin", "xx");
  EXPECT_THAT(refusal(folder / "lost"), HasSubstr("there is " + (folder / "lost") + ".bin, but no"));
}

}  // namespace
}  // namespace troupe::data
