#include "models/checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/device/storage.h"

namespace troupe::checkpoint {

StatusOr<RunLock> RunLock::take(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return device::errno_status(error.value(), absl::StrCat("create folder ", out));
  const std::string path = absl::StrCat(out, "/.lock");
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return device::errno_status(errno, absl::StrCat("open ", path));
  RunLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return device::errno_status(errno, absl::StrCat("lock ", path));
    std::array<char, 512> holder{};
    const ssize_t got = pread(descriptor, holder.data(), holder.size() - 1, 0);
    std::string who =
        got > 0 ? std::string(holder.data(), static_cast<std::size_t>(got)) : "a process just starting\n";
    who = who.substr(0, who.find('\n'));
    return absl::FailedPreconditionError(absl::StrCat(
        out, ": in use by ", who, ": wait for that run, stop it, or give another output folder"));
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string text = absl::StrCat("pid ", getpid(), " on ", host.data(), "\n");
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return device::errno_status(errno, absl::StrCat("write ", path));
  }
  return lock;
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace troupe::checkpoint
