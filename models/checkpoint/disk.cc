#include "models/checkpoint/disk.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace troupe::checkpoint {

namespace fs = std::filesystem;
using Kind = DiskOperation::Kind;

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(disk_->chunk_bytes_)));
    TROUPE_RETURN_IF_ERROR(disk_->announce(Kind::kWrite, path_, static_cast<std::int64_t>(chunk.size())));
    hash_.update(chunk);
    TROUPE_RETURN_IF_ERROR(file_.write(chunk));
    bytes_ += static_cast<std::int64_t>(chunk.size());
    bytes = bytes.subspan(chunk.size());
  }
  return ok();
}

Status OutputFile::write(const std::string& text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

StatusOr<WrittenFile> OutputFile::close_durably() {
  TROUPE_RETURN_IF_ERROR(disk_->announce(Kind::kSyncFile, path_));
  TROUPE_RETURN_IF_ERROR(file_.close_durably());
  return WrittenFile{bytes_, hash_.hex()};
}

Status Disk::announce(Kind kind, const std::string& path, std::int64_t bytes) const {
  return probe_ ? probe_(DiskOperation{kind, path, bytes}) : ok();
}

StatusOr<OutputFile> Disk::create(const std::string& path) const {
  TROUPE_RETURN_IF_ERROR(announce(Kind::kCreateFile, path));
  TROUPE_ASSIGN_OR_RETURN(device::FileWriter file, device::FileWriter::create(path));
  return OutputFile(this, path, std::move(file));
}

StatusOr<WrittenFile> Disk::write_file_durably(const std::string& path, const std::string& text) const {
  TROUPE_ASSIGN_OR_RETURN(OutputFile file, create(path));
  TROUPE_RETURN_IF_ERROR(file.write(text));
  return file.close_durably();
}

Status Disk::create_folder(const std::string& path) const {
  std::error_code error;
  if (fs::is_directory(path, error)) return ok();
  const std::string parent = fs::path(path).parent_path().string();
  if (!parent.empty()) TROUPE_RETURN_IF_ERROR(create_folder(parent));
  TROUPE_RETURN_IF_ERROR(announce(Kind::kCreateFolder, path));
  // another process may have made it meanwhile: that is not an error
  if (!fs::create_directory(path, error) && error) {
    return device::errno_status(error.value(), absl::StrCat("create folder ", path));
  }
  return device::sync_folder(parent);
}

Status Disk::sync_folder(const std::string& path) const {
  TROUPE_RETURN_IF_ERROR(announce(Kind::kSyncFolder, path));
  return device::sync_folder(path);
}

Status Disk::rename_durably(const std::string& from, const std::string& to) const {
  TROUPE_RETURN_IF_ERROR(announce(Kind::kRename, to));
  return device::rename_durably(from, to);
}

Status Disk::exchange_durably(const std::string& a, const std::string& b) const {
  TROUPE_RETURN_IF_ERROR(announce(Kind::kRename, b));
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno == EINVAL || errno == ENOSYS) {
      return absl::UnimplementedError(absl::StrCat(b, ": this file system cannot exchange two folders"));
    }
    return device::errno_status(errno, absl::StrCat("exchange ", a, " and ", b));
  }
  return device::sync_folder(fs::path(b).parent_path().string());
}

Status Disk::remove_all(const std::string& path) const {
  TROUPE_RETURN_IF_ERROR(announce(Kind::kRemove, path));
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return device::errno_status(error.value(), absl::StrCat("remove ", path));
  return ok();
}

}  // namespace troupe::checkpoint
