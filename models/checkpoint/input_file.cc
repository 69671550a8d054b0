#include "models/checkpoint/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/device/storage.h"

namespace troupe::checkpoint {

StatusOr<InputFile> InputFile::open(const std::string& path) {
  // not blocking: a fifo would hold us here before we could see what it is
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return device::errno_status(errno, absl::StrCat("open ", path));
  InputFile file(path, descriptor);
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) return device::errno_status(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a plain file"));
  file.size_bytes_ = facts.st_size;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status InputFile::read(std::int64_t offset_bytes, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(descriptor_, into.data(), into.size(), offset_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return device::errno_status(errno, absl::StrCat("read ", path_));
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset_bytes, ", ", into.size(),
                                              " bytes before what was asked for"));
    }
    offset_bytes += got;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return ok();
}

}  // namespace troupe::checkpoint
