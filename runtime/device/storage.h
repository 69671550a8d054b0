// Files, for work on a storage stream: a stream whose thread may block on disks. Handlers never call these.
//
// Errors name the path and what the system said; kResourceExhausted for a full disk, kNotFound,
// kAlreadyExists, kPermissionDenied as they say, kUnavailable for the rest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace troupe::device {

// A file being written, in order. Nothing is promised until close_durably() returned ok.
class FileWriter {
 public:
  static StatusOr<FileWriter> create(const std::string& path);
  static StatusOr<FileWriter> append(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  ~FileWriter();  // closes without promise

  Status write(std::span<const std::byte> bytes);
  Status write(const std::string& text);
  Status close_durably();  // fsync, close

 private:
  FileWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_ = -1;
};

// Writes, fsyncs, then fsyncs the folder that holds it: the name is durable too.
Status write_file_durably(const std::string& path, const std::string& text);
StatusOr<std::string> read_file(const std::string& path);
// rename(2), then fsync of the folder that holds `to`.
Status rename_durably(const std::string& from, const std::string& to);
Status sync_folder(const std::string& path);

// A Status from errno: kResourceExhausted for ENOSPC and EDQUOT, kNotFound for ENOENT, kAlreadyExists
// for EEXIST, kPermissionDenied for EACCES, EPERM and EROFS, else kUnavailable.
Status errno_status(int error, const std::string& what);

}  // namespace troupe::device
