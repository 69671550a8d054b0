#include "models/data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/data/corpus.h"
#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ByteTokenizer kBytes;

// The documents of a corpus as text, each without its end.
std::vector<std::string> documents(const std::string& path) {
  const auto corpus = open_corpus(path);
  EXPECT_TRUE(corpus.ok()) << corpus.status();
  if (!corpus.ok()) return {};
  EXPECT_TRUE((*corpus)->verify_content().ok());
  std::vector<std::string> found;
  for (std::int64_t begin = 0; begin < (*corpus)->tokens();) {
    const auto end = (*corpus)->next_document_begin(begin + 1, (*corpus)->tokens());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(end - begin));
    EXPECT_TRUE((*corpus)->read(begin, tokens).ok());
    EXPECT_EQ(tokens.back(), ByteTokenizer::kEndOfDocument);
    found.push_back(*kBytes.decode(tokens));
    begin = end;
  }
  return found;
}

class PrepareFiles : public testing::Test {
 protected:
  PrepareFiles() { std::filesystem::create_directory(in_); }

  StatusOr<PrepareReport> run(PrepareOptions options) {
    if (options.output.empty()) options.output = out_;
    return prepare({in_}, kBytes, options);
  }
  void write_fortunes(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "fortune " + std::to_string(i) + "\n%\n";
    write_bytes(in_ + "/fortunes", text);
  }

  TempFolder folder_;
  const std::string in_ = folder_ / "in";
  const std::string out_ = folder_ / "out/text";  // the folder is made
};

TEST_F(PrepareFiles, MakesADocumentOfEachFile) {
  write_bytes(in_ + "/b", "second\n");
  write_bytes(in_ + "/a", "first \xff\xfe bytes");
  write_bytes(in_ + "/c", std::string(3 << 20, 'c'));  // longer than a buffer
  write_bytes(in_ + "/d", std::string("bin\0ary", 7));
  const auto report = run({});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(documents(out_), ElementsAre("first \xff\xfe bytes", "second\n", std::string(3 << 20, 'c')));
  EXPECT_EQ(report->train.documents, 3);
  EXPECT_EQ(report->train.text_bytes, 14 + 7 + (3 << 20));
  EXPECT_EQ(report->train.tokens, report->train.text_bytes + 3);
  EXPECT_EQ(report->text.files, 3);
  EXPECT_THAT(to_text(*report), HasSubstr("3 files read, 3145749 bytes; left out: 1 binary"));
  const auto corpus = *open_corpus(out_);
  EXPECT_EQ(corpus->facts().tokenizer, "byte");
  EXPECT_EQ(corpus->facts().vocab_size, 257);
  EXPECT_EQ(corpus->facts().end_of_document, 256);
  EXPECT_EQ(corpus->facts().token_type, TokenType::kU16);
}

TEST_F(PrepareFiles, SplitsFilesAtALine) {
  write_bytes(in_ + "/f", "one\n%\n%\ntwo\n%\n");
  ASSERT_TRUE(run({.split_on = "%"}).ok());
  EXPECT_THAT(documents(out_), ElementsAre("one\n", "two\n"));
}

TEST_F(PrepareFiles, SplitsWholeDocumentsIntoTrainAndValidation) {
  write_fortunes(1000);
  const auto report = run({.validation_fraction = 0.1, .split_seed = 4, .split_on = "%"});
  ASSERT_TRUE(report.ok()) << report.status();
  const auto train = documents(out_ + "_train"), validation = documents(out_ + "_validation");
  EXPECT_EQ(train.size() + validation.size(), 1000u);
  EXPECT_NEAR(static_cast<double>(validation.size()), 100, 50);  // 5 standard deviations
  auto all = train;
  all.insert(all.end(), validation.begin(), validation.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(report->validation->documents, static_cast<std::int64_t>(validation.size()));

  // Same seed, same files; another seed, another split.
  ASSERT_TRUE(
      run({.output = folder_ / "again", .validation_fraction = 0.1, .split_seed = 4, .split_on = "%"}).ok());
  ASSERT_TRUE(
      run({.output = folder_ / "other", .validation_fraction = 0.1, .split_seed = 5, .split_on = "%"}).ok());
  for (const char* suffix : {".bin", ".idx", ".json"}) {
    EXPECT_EQ(read_bytes(folder_ / "again_validation" + suffix), read_bytes(out_ + "_validation" + suffix));
  }
  EXPECT_NE(read_bytes(folder_ / "other_validation.bin"), read_bytes(out_ + "_validation.bin"));
}

TEST_F(PrepareFiles, RefusesASplitWithNothingInIt) {
  write_fortunes(2);
  const auto report = run({.validation_fraction = 1e-6, .split_on = "%"});
  EXPECT_TRUE(absl::IsFailedPrecondition(report.status()));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("text_validation: would be empty"));
  EXPECT_THAT(folder_.names(), ElementsAre("in/fortunes"));
}

TEST_F(PrepareFiles, RefusesInputsWithoutText) {
  write_bytes(in_ + "/empty", "");
  write_bytes(in_ + "/binary", std::string("\0", 1));
  const auto report = run({});
  EXPECT_TRUE(absl::IsInvalidArgument(report.status()));
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("no text in the inputs: 0 files read, 1 binary, 1 empty"));
  EXPECT_THAT(folder_.names(), ElementsAre("in/binary", "in/empty"));
}

TEST_F(PrepareFiles, RefusesBadOptions) {
  write_fortunes(2);
  EXPECT_TRUE(absl::IsInvalidArgument(run({.validation_fraction = 1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(run({.validation_fraction = -0.1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(run({.validation_fraction = std::nan("")}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(run({.split_on = "%\n"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(prepare({}, kBytes, {.output = out_}).status()));
  EXPECT_TRUE(absl::IsNotFound(prepare({folder_ / "gone"}, kBytes, {.output = out_}).status()));
  EXPECT_THAT(folder_.names(), ElementsAre("in/fortunes"));
}

TEST_F(PrepareFiles, RefusesToReplaceWithoutForce) {
  write_bytes(in_ + "/a", "old");
  ASSERT_TRUE(run({}).ok());
  write_bytes(in_ + "/a", "new");
  EXPECT_TRUE(absl::IsAlreadyExists(run({}).status()));
  EXPECT_THAT(documents(out_), ElementsAre("old"));
}

TEST_F(PrepareFiles, ReplacesUnderAReaderWithForce) {
  write_bytes(in_ + "/a", "old text");
  ASSERT_TRUE(run({}).ok());
  const auto reader = *open_corpus(out_);
  write_bytes(in_ + "/a", "new");
  ASSERT_TRUE(run({.force = true}).ok());
  EXPECT_THAT(documents(out_), ElementsAre("new"));
  std::vector<std::int32_t> tokens(9);
  ASSERT_TRUE(reader->read(0, tokens).ok());
  EXPECT_EQ(*kBytes.decode(tokens), "old text");
}

TEST_F(PrepareFiles, KeepsTheOldCorpusWhenTheDiskIsFull) {
  write_bytes(in_ + "/a", "old");
  ASSERT_TRUE(run({}).ok());
  std::filesystem::create_symlink("/dev/full", out_ + ".bin.partial");
  const auto report = run({.force = true});
  EXPECT_TRUE(absl::IsResourceExhausted(report.status())) << report.status();
  EXPECT_THAT(documents(out_), ElementsAre("old"));
  EXPECT_THAT(folder_.names(), ElementsAre("in/a", "out/text.bin", "out/text.idx", "out/text.json"));
}

TEST_F(PrepareFiles, NamesAnOutputItMayNotWrite) {
  write_bytes(in_ + "/a", "x");
  const auto report = run({.output = "/proc/self/text"});  // not even root may
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("/proc/self/text.bin.partial"));
  EXPECT_THAT(std::string(run({.output = in_ + "/a/under/a/file"}).status().message()),
              HasSubstr("create folder"));
}

TEST_F(PrepareFiles, DoesNotReadItsOwnOutput) {
  write_bytes(in_ + "/z", "text");
  ASSERT_TRUE(run({.output = in_ + "/corpus"}).ok());
  ASSERT_TRUE(run({.output = in_ + "/corpus", .force = true}).ok());
  EXPECT_THAT(documents(in_ + "/corpus"), ElementsAre("text"));
}

TEST_F(PrepareFiles, NoticesAlteredTokens) {
  write_bytes(in_ + "/a", "some text");
  ASSERT_TRUE(run({}).ok());
  std::string bytes = read_bytes(out_ + ".bin");
  bytes[4] = 'X';
  write_bytes(out_ + ".bin", bytes);
  EXPECT_TRUE(absl::IsDataLoss((*open_corpus(out_))->verify_content()));
}

}  // namespace
}  // namespace troupe::data
