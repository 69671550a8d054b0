// A whole file mapped read-only.
//
// Threads: any may read; the first touch of a page may wait for the disk, so handlers never read one (a
// storage stream
//   does).
// Owns: the mapping; the descriptor is closed once mapped, so a thousand shards cost no descriptors.
// Errors: kNotFound, kPermissionDenied, kInvalidArgument for what is not a regular file. An empty file maps
// to no bytes. Limits: a file that is shortened in place while mapped kills the reader (SIGBUS, mmap(2)).
// Replace it by rename, as
//   `prepare` does: the mapping keeps the old file (PrepareFiles.ReplacesUnderAReaderWithForce).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace troupe::data {

class MappedFile {
 public:
  static StatusOr<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace troupe::data
