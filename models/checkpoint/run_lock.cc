#include "models/checkpoint/run_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/device/storage.h"

namespace troupe::checkpoint {
namespace {

std::string lock_path(const std::string& out) { return absl::StrCat(out, "/.lock"); }
std::string holder_in(const std::string& text) { return text.substr(0, text.find('\n')); }
std::string token_line(const std::string& token) { return absl::StrCat("token ", token, "\n"); }

StatusOr<std::string> random_token() {
  std::array<char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return device::errno_status(errno, "draw a token for the run's lock");
  return absl::BytesToHexString({bytes.data(), bytes.size()});
}

}  // namespace

StatusOr<RunLock> RunLock::take(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return device::errno_status(error.value(), absl::StrCat("create folder ", out));
  const std::string path = lock_path(out);
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return device::errno_status(errno, absl::StrCat("open ", path));
  RunLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return device::errno_status(errno, absl::StrCat("lock ", path));
    std::array<char, 512> holder{};
    const ssize_t got = pread(descriptor, holder.data(), holder.size() - 1, 0);
    const std::string who =
        got > 0 ? std::string(holder.data(), static_cast<std::size_t>(got)) : "a process just starting\n";
    return absl::FailedPreconditionError(absl::StrCat(
        out, ": in use by ", holder_in(who), ": wait for that run, stop it, or give another output folder"));
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  TROUPE_ASSIGN_OR_RETURN(lock.token_, random_token());
  const std::string text = absl::StrCat("pid ", getpid(), " on ", host.data(), "\n", token_line(lock.token_));
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      fsync(descriptor) != 0) {  // other hosts read it
    return device::errno_status(errno, absl::StrCat("write ", path));
  }
  return lock;
}

Status find_run_lock(const std::string& out, const std::string& token, std::chrono::nanoseconds patience) {
  constexpr int kLookEveryMs = 50;
  const std::string path = lock_path(out);
  const auto due = std::chrono::steady_clock::now() + patience;
  while (true) {
    std::error_code ignored;
    (void)std::filesystem::directory_iterator(out, ignored);  // opening a folder is what makes NFS ask its server again
    const StatusOr<std::string> text = device::read_file(path);
    if (text.ok() && absl::EndsWith(*text, token_line(token))) return ok();
    if (std::chrono::steady_clock::now() >= due) {
      return absl::FailedPreconditionError(
          text.ok() ? absl::StrCat(path, " is of another run (", holder_in(*text), ")") : std::string(text.status().message()));
    }
    poll(nullptr, 0, kLookEveryMs);
  }
}

RunLock::RunLock(RunLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), token_(std::move(other.token_)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(token_, other.token_);
  return *this;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace troupe::checkpoint
