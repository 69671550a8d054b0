#include "models/data/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/corpus_files.h"

namespace troupe::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Collector final : public DocumentSink {
 public:
  Status text(std::string_view piece) override {
    EXPECT_FALSE(piece.empty());
    open_ += piece;
    return ok();
  }
  Status end_document() override {
    documents.push_back(std::exchange(open_, {}));
    return ok();
  }
  std::vector<std::string> documents;

 private:
  std::string open_;
};

std::vector<std::string> split(const std::string& text, const std::string& separator, std::size_t piece) {
  Collector sink;
  DocumentSplitter splitter(separator, sink);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    EXPECT_TRUE(splitter.feed(std::string_view(text).substr(at, piece)).ok());
  }
  EXPECT_TRUE(splitter.end_file().ok());
  return sink.documents;
}

TEST(DocumentSplitter, CutsAtSeparatorLinesOnly) {
  // However the text comes in pieces.
  for (std::size_t piece = 1; piece < 40; ++piece) {
    EXPECT_THAT(split("a\nb\n%\nc\n%\n", "%", piece), ElementsAre("a\nb\n", "c\n", ""));
    EXPECT_THAT(split("a\r\n%\r\nb", "%", piece), ElementsAre("a\r\n", "b"));
    EXPECT_THAT(split("50%\n%%\n% \nx%\n", "%", piece), ElementsAre("50%\n%%\n% \nx%\n"));
    EXPECT_THAT(split("%\n%\na\n%", "%", piece), ElementsAre("", "", "a\n"));
    EXPECT_THAT(split("one\n---\n--\n----\ntwo", "---", piece), ElementsAre("one\n", "--\n----\ntwo"));
    EXPECT_THAT(split("\n\n%\n\n", "%", piece), ElementsAre("\n\n", "\n"));
  }
}

TEST(DocumentSplitter, KeepsAFileWholeWithoutSeparator) {
  EXPECT_THAT(split("a\n%\nb", "", 2), ElementsAre("a\n%\nb"));
}

class TextFiles : public testing::Test {
 protected:
  std::vector<std::string> read(const std::vector<std::string>& inputs,
                                const std::vector<std::string>& exclude = {}) {
    Collector sink;
    counts_ = {};
    status_ = read_documents(inputs, "", exclude, sink, counts_);
    return sink.documents;
  }

  TempFolder folder_;
  TextCounts counts_;
  Status status_;
};

TEST_F(TextFiles, ComeInOrderOfNameFromNestedFolders) {
  std::filesystem::create_directories(folder_ / "b/deep");
  write_bytes(folder_ / "c", "4");
  write_bytes(folder_ / "a", "1");
  write_bytes(folder_ / "b/z", "3");
  write_bytes(folder_ / "b/deep/x", "2");
  write_bytes(folder_ / "B", "0");  // by bytes: capitals first, in any locale
  EXPECT_THAT(read({folder_.path()}), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_EQ(counts_.files, 5);
  EXPECT_EQ(counts_.bytes, 5);
  EXPECT_THAT(read({folder_ / "c", folder_ / "b"}), ElementsAre("4", "2", "3"));
}

TEST_F(TextFiles, LeavesOutWhatIsNoTextAndCountsIt) {
  write_bytes(folder_ / "text", "good");
  write_bytes(folder_ / "binary", std::string("ab\0cd", 5));
  write_bytes(folder_ / "late",
              std::string(4096, 'x') + std::string("\0", 1));  // beyond the first 4 KiB: text
  write_bytes(folder_ / "empty", "");
  write_bytes(folder_ / ".hidden", "no");
  std::filesystem::create_symlink("text", folder_ / "text.u8");
  EXPECT_THAT(read({folder_.path()}), ElementsAre(std::string(4096, 'x') + std::string("\0", 1), "good"));
  EXPECT_EQ(counts_.files, 2);
  EXPECT_EQ(counts_.skipped_binary, 1);
  EXPECT_EQ(counts_.skipped_empty, 1);
  EXPECT_EQ(counts_.skipped_hidden, 1);
  EXPECT_EQ(counts_.skipped_links, 1);
  // Named outright, a link is followed.
  EXPECT_THAT(read({folder_ / "text.u8"}), ElementsAre("good"));
}

TEST_F(TextFiles, PassesOverExcludedFiles) {
  write_bytes(folder_ / "a", "1");
  write_bytes(folder_ / "b", "2");
  EXPECT_THAT(read({folder_.path()}, {folder_.path() + "/./b"}), ElementsAre("1"));
}

TEST_F(TextFiles, NamesAMissingInput) {
  read({folder_ / "gone"});
  EXPECT_TRUE(absl::IsNotFound(status_));
  EXPECT_THAT(std::string(status_.message()), HasSubstr("gone: no such file or folder"));
}

}  // namespace
}  // namespace troupe::data
