#include "tests/bench/cpu_quota.h"

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
  auto guard = OutlivingGuard::start([folder] {
    // Who is in it was this process's child and dies with it.
    for (int tries = 0; tries < 500 && rmdir(folder.c_str()) != 0 && errno == EBUSY; ++tries) usleep(10'000);
  });
  if (!guard.ok()) {
    rmdir(folder.c_str());
    return guard.status();
  }
  CpuQuota quota(folder, *std::move(guard));
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

CpuQuota::CpuQuota(CpuQuota&& other) noexcept : folder_(std::exchange(other.folder_, "")), guard_(std::move(other.guard_)) {}

CpuQuota::~CpuQuota() {
  if (folder_.empty()) return;
  const std::string parent = fs::path(folder_).parent_path().string();
  std::ifstream members(folder_ + "/cgroup.procs");
  for (std::string process; std::getline(members, process);) (void)put(parent + "/cgroup.procs", process);
  rmdir(folder_.c_str());  // the files in it are the kernel's
}

}  // namespace troupe::bench
