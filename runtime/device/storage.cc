#include "runtime/device/storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace troupe::device {

Status errno_status(int error, const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT: return absl::ResourceExhaustedError(absl::StrCat(text, "; free space there, or write elsewhere"));
    case ENOENT: return absl::NotFoundError(text);
    case EEXIST: return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(text);
    default: return absl::UnavailableError(text);
  }
}

namespace {

StatusOr<int> open_file(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) return errno_status(errno, absl::StrCat("open ", path));
  return descriptor;
}

Status sync_folder_of(const std::string& path) { return sync_folder(std::filesystem::path(path).parent_path().string()); }

}  // namespace

StatusOr<FileWriter> FileWriter::create(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const int descriptor, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  return FileWriter(path, descriptor);
}

StatusOr<FileWriter> FileWriter::append(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const int descriptor, open_file(path, O_WRONLY | O_CREAT | O_APPEND));
  return FileWriter(path, descriptor);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno_status(errno, absl::StrCat("write ", path_));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok();
}

Status FileWriter::write(const std::string& text) { return write(std::as_bytes(std::span(text.data(), text.size()))); }

Status FileWriter::close_durably() {
  if (fsync(descriptor_) != 0) return errno_status(errno, absl::StrCat("fsync ", path_));
  if (close(std::exchange(descriptor_, -1)) != 0) return errno_status(errno, absl::StrCat("close ", path_));
  return ok();
}

Status write_file_durably(const std::string& path, const std::string& text) {
  TROUPE_ASSIGN_OR_RETURN(FileWriter file, FileWriter::create(path));
  TROUPE_RETURN_IF_ERROR(file.write(text));
  TROUPE_RETURN_IF_ERROR(file.close_durably());
  return sync_folder_of(path);
}

StatusOr<std::string> read_file(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const int descriptor, open_file(path, O_RDONLY));
  std::string text;
  char part[1 << 16];
  ssize_t got = 0;
  while ((got = read(descriptor, part, sizeof part)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(descriptor);
      return errno_status(error, absl::StrCat("read ", path));
    }
    text.append(part, static_cast<std::size_t>(got));
  }
  close(descriptor);
  return text;
}

Status rename_durably(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return errno_status(errno, absl::StrCat("rename ", from, " to ", to));
  return sync_folder_of(to);
}

Status sync_folder(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const int descriptor, open_file(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY));
  const int failed = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  return failed ? errno_status(error, absl::StrCat("fsync ", path)) : ok();
}

}  // namespace troupe::device
