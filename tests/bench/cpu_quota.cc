#include "tests/bench/cpu_quota.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace troupe::bench {
namespace {

namespace fs = std::filesystem;
constexpr const char* kV1 = "/sys/fs/cgroup/cpu";
constexpr const char* kV2 = "/sys/fs/cgroup";

Status put(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  if (!file)
    return absl::UnavailableError(absl::StrCat("cannot write '", text, "' to ", path, ": a CPU quota needs root and the cpu controller"));
  return ok();
}

}  // namespace

StatusOr<CpuQuota> CpuQuota::over(pid_t process, double share, const std::string& name) {
  const bool v1 = fs::exists(absl::StrCat(kV1, "/cpu.cfs_quota_us"));
  const std::string folder = absl::StrCat(v1 ? kV1 : kV2, "/", name);
  std::error_code error;
  if (!fs::create_directory(folder, error))
    return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error ? error.message() : "it is there already"));
  CpuQuota quota(folder);
  const int us = static_cast<int>(share * kPeriodUs);
  if (v1) {
    TROUPE_RETURN_IF_ERROR(put(folder + "/cpu.cfs_period_us", absl::StrCat(kPeriodUs)));
    TROUPE_RETURN_IF_ERROR(put(folder + "/cpu.cfs_quota_us", absl::StrCat(us)));
  } else {
    TROUPE_RETURN_IF_ERROR(put(absl::StrCat(kV2, "/cgroup.subtree_control"), "+cpu"));
    TROUPE_RETURN_IF_ERROR(put(folder + "/cpu.max", absl::StrCat(us, " ", kPeriodUs)));
  }
  TROUPE_RETURN_IF_ERROR(put(folder + "/cgroup.procs", absl::StrCat(process)));
  return quota;
}

CpuQuota::CpuQuota(std::string folder) : folder_(std::move(folder)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  guard_pid_ = fork();
  if (guard_pid_ == 0) {
    setsid();  // not reached by what a terminal sends
    close(ends[1]);
    char none;
    while (read(ends[0], &none, 1) < 0 && errno == EINTR) {
    }
    // Who is in it was this process's child and dies with it.
    for (int tries = 0; tries < 500 && rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++tries) usleep(10'000);
    _exit(0);
  }
  close(ends[0]);
  guard_ = ends[1];
}

CpuQuota::CpuQuota(CpuQuota&& other) noexcept
    : folder_(std::exchange(other.folder_, "")), guard_(std::exchange(other.guard_, -1)), guard_pid_(std::exchange(other.guard_pid_, -1)) {}

CpuQuota::~CpuQuota() {
  if (folder_.empty()) return;
  const std::string parent = fs::path(folder_).parent_path().string();
  std::ifstream members(folder_ + "/cgroup.procs");
  for (std::string process; std::getline(members, process);) (void)put(parent + "/cgroup.procs", process);
  rmdir(folder_.c_str());  // the files in it are the kernel's
  if (guard_ >= 0) close(guard_);
  if (guard_pid_ > 0) waitpid(guard_pid_, nullptr, 0);
}

}  // namespace troupe::bench
