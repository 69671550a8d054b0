#include "runtime/device/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::device {
namespace {

using absl::StatusCode;
using testing::AnyOf;
using testing::HasSubstr;

// A folder of its own for each test, gone at the end.
struct StorageTest : testing::Test {
  StorageTest() {
    std::string name = testing::TempDir() + "storage-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  ~StorageTest() override { std::filesystem::remove_all(folder); }
  std::string in_folder(const std::string& name) const { return folder + "/" + name; }

  std::string folder;
};

struct FileWriterTest : StorageTest {};

std::string text_of(const std::string& path) {
  const auto text = read_file(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("unreadable");
}

void expect_error(const Status& status, StatusCode code, const std::string& path, const std::string& said) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr(said));
}

// Errors without a code of their own.
void expect_other_error(const Status& status, const std::string& path, const std::string& said) {
  EXPECT_THAT(status.code(), AnyOf(StatusCode::kUnavailable, StatusCode::kInternal)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr(said));
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// The superuser may open everything, so a test about permissions steps down for a while.
class WithoutPrivilege {
 public:
  WithoutPrivilege() : stepped_down_(geteuid() == 0 && seteuid(65534) == 0) {}
  ~WithoutPrivilege() {
    if (stepped_down_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }
  WithoutPrivilege(const WithoutPrivilege&) = delete;
  WithoutPrivilege& operator=(const WithoutPrivilege&) = delete;

 private:
  bool stepped_down_;
};

TEST_F(StorageTest, ReadsWhatItWrote) {
  std::string large(200'001, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i % 251);  // zeros among them
  for (const std::string& text : {std::string(), std::string("two\nlines\n"), large}) {
    ASSERT_EQ(write_file_durably(in_folder("file"), text), ok());
    EXPECT_TRUE(text_of(in_folder("file")) == text) << text.size() << " bytes";
  }
}

TEST_F(StorageTest, WritesOverALongerFile) {
  ASSERT_EQ(write_file_durably(in_folder("file"), "a long text"), ok());
  ASSERT_EQ(write_file_durably(in_folder("file"), "short"), ok());
  EXPECT_EQ(text_of(in_folder("file")), "short");
}

TEST_F(StorageTest, RenamesOverWhatWasThere) {
  ASSERT_EQ(write_file_durably(in_folder("new"), "new"), ok());
  ASSERT_EQ(write_file_durably(in_folder("current"), "old"), ok());
  EXPECT_EQ(rename_durably(in_folder("new"), in_folder("current")), ok());
  EXPECT_EQ(text_of(in_folder("current")), "new");
  EXPECT_FALSE(std::filesystem::exists(in_folder("new")));
}

TEST_F(StorageTest, RenamesIntoAnotherFolder) {
  std::filesystem::create_directory(in_folder("there"));
  ASSERT_EQ(write_file_durably(in_folder("file"), "moved"), ok());
  EXPECT_EQ(rename_durably(in_folder("file"), in_folder("there/file")), ok());
  EXPECT_EQ(text_of(in_folder("there/file")), "moved");
}

TEST_F(StorageTest, RenamesAPathWithoutAFolder) {
  ASSERT_EQ(write_file_durably(in_folder("a"), "here"), ok());
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  const Status renamed = rename_durably("a", "b");
  std::filesystem::current_path(before);
  EXPECT_EQ(renamed, ok());
  EXPECT_EQ(text_of(in_folder("b")), "here");
}

TEST_F(StorageTest, NamesTheFileThatIsMissing) {
  const std::string path = in_folder("missing");
  const std::string said = "No such file or directory";
  expect_error(read_file(path).status(), StatusCode::kNotFound, path, said);
  expect_error(sync_folder(path), StatusCode::kNotFound, path, said);
  expect_error(rename_durably(path, in_folder("to")), StatusCode::kNotFound, path, said);
}

TEST_F(StorageTest, NamesThePathWhoseFolderIsMissing) {
  const std::string path = in_folder("missing/file");
  const std::string said = "No such file or directory";
  expect_error(write_file_durably(path, "text"), StatusCode::kNotFound, path, said);
  expect_error(FileWriter::create(path).status(), StatusCode::kNotFound, path, said);
  expect_error(FileWriter::append(path).status(), StatusCode::kNotFound, path, said);
  ASSERT_EQ(write_file_durably(in_folder("file"), "text"), ok());
  expect_error(rename_durably(in_folder("file"), path), StatusCode::kNotFound, path, said);
  EXPECT_EQ(text_of(in_folder("file")), "text");
}

TEST_F(StorageTest, NamesAFolderThatShouldBeAFile) {
  expect_other_error(read_file(folder).status(), folder, "Is a directory");
  expect_other_error(write_file_durably(folder, "text"), folder, "Is a directory");
  expect_other_error(FileWriter::append(folder).status(), folder, "Is a directory");
}

TEST_F(StorageTest, NamesAFileThatShouldBeAFolder) {
  const std::string path = in_folder("file");
  ASSERT_EQ(write_file_durably(path, "text"), ok());
  expect_other_error(sync_folder(path), path, "Not a directory");
  expect_other_error(read_file(path + "/below").status(), path + "/below", "Not a directory");
}

TEST_F(StorageTest, NamesTheFileItMayNotOpen) {
  const std::string path = in_folder("closed");
  ASSERT_EQ(write_file_durably(path, "text"), ok());
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const WithoutPrivilege as_anyone;
  if (geteuid() == 0) GTEST_SKIP() << "the superuser may open everything";
  expect_error(read_file(path).status(), StatusCode::kPermissionDenied, path, "Permission denied");
  expect_error(write_file_durably(path, "other"), StatusCode::kPermissionDenied, path, "Permission denied");
}

// Without that a file that was written may have no name after a power cut.
TEST_F(StorageTest, TellsWhenTheFoldersEntryCannotBeMadeDurable) {
  const auto unreadable = in_folder("unreadable");
  std::filesystem::create_directory(unreadable);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  std::filesystem::permissions(unreadable, static_cast<std::filesystem::perms>(0333));
  const WithoutPrivilege nobody;
  expect_error(write_file_durably(unreadable + "/file", "text"), StatusCode::kPermissionDenied, unreadable, "Permission denied");
  EXPECT_EQ(text_of(unreadable + "/file"), "text");
}

TEST_F(StorageTest, SaysThatTheDiskIsFull) {
  const std::string path = "/dev/full";
  if (access(path.c_str(), W_OK) != 0) GTEST_SKIP() << "no " << path << " here";
  expect_error(write_file_durably(path, "text"), StatusCode::kResourceExhausted, path, "No space left");
}

TEST_F(StorageTest, LeavesNoDescriptorOpen) {
  const auto before = open_descriptors();
  ASSERT_EQ(write_file_durably(in_folder("a"), "text"), ok());
  EXPECT_EQ(text_of(in_folder("a")), "text");
  EXPECT_EQ(rename_durably(in_folder("a"), in_folder("b")), ok());
  EXPECT_EQ(sync_folder(folder), ok());
  EXPECT_FALSE(read_file(folder).ok());
  EXPECT_FALSE(sync_folder(in_folder("b")).ok());
  if (access("/dev/full", W_OK) == 0) {
    EXPECT_FALSE(write_file_durably("/dev/full", "text").ok());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ErrnoStatus, HasTheCodeThatTellsWhatToDo) {
  const std::vector<std::pair<int, StatusCode>> expected = {{ENOSPC, StatusCode::kResourceExhausted},
                                                            {EDQUOT, StatusCode::kResourceExhausted},
                                                            {ENOENT, StatusCode::kNotFound}};
  for (const auto& [error, code] : expected) {
    const Status status = errno_status(error, "write /some/path");
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("write /some/path"));
  }
  EXPECT_THAT(errno_status(EIO, "read x").code(), AnyOf(StatusCode::kUnavailable, StatusCode::kInternal));
}

TEST(ErrnoStatus, SaysWhatTheSystemSaid) {
  EXPECT_THAT(std::string(errno_status(EIO, "read x").message()), HasSubstr("Input/output error"));
}

TEST_F(FileWriterTest, WritesInOrder) {
  auto file = FileWriter::create(in_folder("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<std::byte> bytes = {std::byte{'b'}, std::byte{0}, std::byte{'c'}};
  EXPECT_EQ(file->write("a"), ok());
  EXPECT_EQ(file->write(std::span(bytes)), ok());
  EXPECT_EQ(file->write(""), ok());
  EXPECT_EQ(file->write("d"), ok());
  EXPECT_EQ(file->close_durably(), ok());
  EXPECT_EQ(text_of(in_folder("file")), std::string("ab\0cd", 5));
}

TEST_F(FileWriterTest, CreatesAnewAndAppendsToWhatIsThere) {
  for (const std::string text : {"one", "two"}) {
    auto file = FileWriter::append(in_folder("file"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->write(text), ok());
    EXPECT_EQ(file->close_durably(), ok());
  }
  EXPECT_EQ(text_of(in_folder("file")), "onetwo");
  auto file = FileWriter::create(in_folder("file"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->close_durably(), ok());
  EXPECT_EQ(text_of(in_folder("file")), "");
}

TEST_F(FileWriterTest, GoesOnWhereItWasMovedTo) {
  const auto before = open_descriptors();
  {
    auto first = FileWriter::create(in_folder("first"));
    auto second = FileWriter::create(in_folder("second"));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->write("1"), ok());
    EXPECT_EQ(second->write("2"), ok());
    FileWriter moved = std::move(first).value();
    EXPECT_EQ(moved.write("1"), ok());
    moved = std::move(second).value();
    EXPECT_EQ(moved.write("2"), ok());
    EXPECT_EQ(moved.close_durably(), ok());
  }
  EXPECT_EQ(text_of(in_folder("first")), "11");
  EXPECT_EQ(text_of(in_folder("second")), "22");
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(FileWriterTest, ClosesWithItsEnd) {
  const auto before = open_descriptors();
  {
    const auto dropped = FileWriter::create(in_folder("dropped"));
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(FileWriterTest, NamesItsPathWhenTheDiskIsFull) {
  const std::string path = "/dev/full";
  if (access(path.c_str(), W_OK) != 0) GTEST_SKIP() << "no " << path << " here";
  auto file = FileWriter::append(path);
  ASSERT_TRUE(file.ok()) << file.status();
  expect_error(file->write("text"), StatusCode::kResourceExhausted, path, "No space left");
}

}  // namespace
}  // namespace troupe::device
