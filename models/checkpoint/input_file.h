// A file read at any offset. By pread, not by mapping: a file cut short under a mapping would kill the
// process.
//
// Threads: any, const. Errors: kNotFound; kDataLoss where the file ends early; kInvalidArgument for what is
// no plain file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace troupe::checkpoint {

class InputFile {
 public:
  static StatusOr<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  // Fills all of `into`.
  Status read(std::int64_t offset_bytes, std::span<std::byte> into) const;
  std::int64_t size_bytes() const { return size_bytes_; }  // at open
  const std::string& path() const { return path_; }

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_bytes_ = 0;
};

}  // namespace troupe::checkpoint
