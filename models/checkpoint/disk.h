// The changes that a save makes to a disk, each announced to a probe just before it is made. The probe is
// where tests kill the process or fill the disk, and where a run counts the bytes written so far.
//
// Threads: the one of the storage stream that saves. Errors: those of runtime/device/storage.h; what the
// probe answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "models/checkpoint/hash.h"
#include "runtime/base/status.h"
#include "runtime/device/storage.h"

namespace troupe::checkpoint {

struct DiskOperation {
  enum class Kind { kCreateFolder, kCreateFile, kWrite, kSyncFile, kSyncFolder, kRename, kRemove };
  Kind kind;
  std::string path;        // of a rename: the new name
  std::int64_t bytes = 0;  // of a write
};

// An error makes the operation fail with it, undone.
using DiskProbe = std::function<Status(const DiskOperation&)>;

struct WrittenFile {
  std::int64_t bytes = 0;
  std::string xxh3_128;
};

// A new file, hashed while it is written.
class OutputFile {
 public:
  Status write(std::span<const std::byte> bytes);
  Status write(const std::string& text);
  StatusOr<WrittenFile> close_durably();
  std::int64_t bytes() const { return bytes_; }

 private:
  friend class Disk;
  OutputFile(const class Disk* disk, std::string path, device::FileWriter file)
      : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}
  const Disk* disk_;
  std::string path_;
  device::FileWriter file_;
  Hash hash_;
  std::int64_t bytes_ = 0;
};

// Must outlive the files it creates.
class Disk {
 public:
  // One write(2), one hash update and one call of the probe at most this long: small enough to stay in the
  // cache between the two, large enough for a disk.
  static constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;

  explicit Disk(DiskProbe probe = {}, std::int64_t chunk_bytes = kChunkBytes)
      : probe_(std::move(probe)), chunk_bytes_(chunk_bytes) {}

  StatusOr<OutputFile> create(const std::string& path) const;
  StatusOr<WrittenFile> write_file_durably(const std::string& path, const std::string& text) const;
  Status create_folder(const std::string& path) const;  // may exist; its parents are made too, durably
  Status sync_folder(const std::string& path) const;
  Status rename_durably(const std::string& from, const std::string& to) const;
  // Swaps two folders in one step; kUnimplemented where the file system cannot.
  Status exchange_durably(const std::string& a, const std::string& b) const;
  Status remove_all(const std::string& path) const;  // fine where there is nothing

 private:
  friend class OutputFile;
  Status announce(DiskOperation::Kind kind, const std::string& path, std::int64_t bytes = 0) const;
  DiskProbe probe_;
  std::int64_t chunk_bytes_;
};

}  // namespace troupe::checkpoint
