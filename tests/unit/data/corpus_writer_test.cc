#include "models/data/corpus_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/data/corpus.h"
#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Documents = std::vector<std::vector<std::int32_t>>;

Status write(CorpusWriter& writer, const Documents& documents) {
  for (const auto& document : documents) {
    TROUPE_RETURN_IF_ERROR(writer.append(document));
    TROUPE_RETURN_IF_ERROR(writer.end_document());
  }
  TROUPE_RETURN_IF_ERROR(writer.finish({.tokenizer = "byte", .vocab_size = 257, .end_of_document = 256}));
  return writer.publish();
}

TEST(CorpusWriter, WritesTheBytesOfTheFormat) {
  const TempFolder folder;
  {
    auto writer = *CorpusWriter::create(folder / "a", {.vocab_size = 257});
    ASSERT_TRUE(write(*writer, {{1, 2, 256}, {3}}).ok());
  }
  EXPECT_THAT(folder.names(), ElementsAre("a.bin", "a.idx", "a.json"));
  EXPECT_EQ(read_bytes(folder / "a.idx"), (IndexFile{.lengths = {3, 1}}.bytes()));
  EXPECT_EQ(read_bytes(folder / "a.bin"), fields<std::uint16_t>({1, 2, 256, 3}));
}

TEST(CorpusWriter, TakesInt32ForALargeVocabulary) {
  const TempFolder folder;
  ASSERT_TRUE(write(**CorpusWriter::create(folder / "a", {.vocab_size = 65500}), {{65499}}).ok());
  EXPECT_EQ(read_bytes(folder / "a.idx"),
            (IndexFile{.type_code = 4, .token_bytes = 4, .lengths = {1}}.bytes()));
  EXPECT_EQ(read_bytes(folder / "a.bin"), fields<std::int32_t>({65499}));
}

TEST(CorpusWriter, CutsALongDocumentIntoSequences) {
  const TempFolder folder;
  ASSERT_TRUE(write(**CorpusWriter::create(folder / "a", {.vocab_size = 257, .max_sequence_tokens = 2}),
                    {{1, 2, 3, 4, 5}, {6, 7}, {8}})
                  .ok());
  EXPECT_EQ(read_bytes(folder / "a.idx"),
            (IndexFile{.lengths = {2, 2, 1, 2, 1}, .documents = {0, 3, 4, 5}}.bytes()));
  const auto corpus = *open_corpus(folder / "a");
  EXPECT_EQ(corpus->next_document_begin(1, 8), 5);
}

TEST(CorpusWriter, LeavesOutDocumentsWithoutTokens) {
  const TempFolder folder;
  auto writer = *CorpusWriter::create(folder / "a", {.vocab_size = 257});
  ASSERT_TRUE(write(*writer, {{}, {1}, {}}).ok());
  EXPECT_EQ(writer->documents(), 1);
}

TEST(CorpusWriter, LeavesNothingWhenNotPublished) {
  const TempFolder folder;
  {
    auto writer = *CorpusWriter::create(folder / "a", {.vocab_size = 257});
    ASSERT_TRUE(writer->append(std::vector<std::int32_t>{1, 2}).ok());
    ASSERT_TRUE(writer->end_document().ok());
    ASSERT_TRUE(writer->finish({}).ok());
    EXPECT_THAT(folder.names(), testing::Not(testing::Contains("a.idx")));
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(CorpusWriter, RefusesASecondWriterWithoutHarmingTheFirst) {
  const TempFolder folder;
  auto writer = *CorpusWriter::create(folder / "a", {.vocab_size = 257});
  ASSERT_TRUE(writer->append(std::vector<std::int32_t>{1, 2}).ok());
  const auto second = CorpusWriter::create(folder / "a", {.vocab_size = 257});
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process is preparing this corpus"));
  ASSERT_TRUE(writer->end_document().ok());
  ASSERT_TRUE(writer->finish({}).ok());
  ASSERT_TRUE(writer->publish().ok());
  EXPECT_EQ((*open_corpus(folder / "a", {.vocab_size = 257}))->tokens(), 2);
}

TEST(CorpusWriter, RefusesAnExistingCorpusUnlessForced) {
  const TempFolder folder;
  write_bytes(folder / "a.json", "mine");
  const auto refused = CorpusWriter::create(folder / "a", {.vocab_size = 257});
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status()));
  EXPECT_THAT(folder.names(), ElementsAre("a.json"));
  ASSERT_TRUE(write(**CorpusWriter::create(folder / "a", {.vocab_size = 257, .force = true}), {{1}}).ok());
  EXPECT_NE(read_bytes(folder / "a.json"), "mine");
}

// /dev/full is a disk without room. A kilobyte of tokens reaches it at finish, two megabytes while appending.
TEST(CorpusWriter, SaysThatTheDiskIsFullAndLeavesNothing) {
  for (const std::size_t tokens : {500u, 1u << 20}) {
    for (const char* part : {".bin.partial", ".lengths.partial", ".idx.partial", ".json.partial"}) {
      const TempFolder folder;
      std::filesystem::create_symlink("/dev/full", folder / ("a" + std::string(part)));
      {
        auto writer = CorpusWriter::create(folder / "a", {.vocab_size = 257});
        ASSERT_TRUE(writer.ok()) << writer.status();
        const Status status = write(**writer, {std::vector<std::int32_t>(tokens, 7)});
        EXPECT_TRUE(absl::IsResourceExhausted(status)) << part << ": " << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("a" + std::string(part)));
      }
      EXPECT_THAT(folder.names(), IsEmpty()) << part;
    }
  }
}

TEST(CorpusWriter, RefusesAnOutputWithoutName) {
  const TempFolder folder;
  EXPECT_TRUE(absl::IsInvalidArgument(CorpusWriter::create(folder / "", {.vocab_size = 257}).status()));
}

}  // namespace
}  // namespace troupe::data
