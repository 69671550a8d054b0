#include "models/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/device/storage.h"

namespace troupe::data {

StatusOr<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return device::errno_status(errno, absl::StrCat("open ", path));
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) {
    const int error = errno;
    close(descriptor);
    return device::errno_status(error, absl::StrCat("stat ", path));
  }
  if (!S_ISREG(facts.st_mode)) {
    close(descriptor);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) {
    close(descriptor);
    return MappedFile(path, {});
  }
  void* const start = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  close(descriptor);
  if (start == MAP_FAILED)
    return device::errno_status(error, absl::StrCat("map ", path, " of ", size, " bytes"));
  return MappedFile(path, {static_cast<const std::byte*>(start), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace troupe::data
