#include "tests/bench/linked_namespaces.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace troupe::bench {
namespace {

StatusOr<std::string> command(const std::string& words) {
  std::FILE* said = popen((words + " 2>&1 </dev/null").c_str(), "re");
  if (!said) return absl::UnavailableError("no pipe");
  std::string text;
  for (int c = std::fgetc(said); c != EOF; c = std::fgetc(said)) text += static_cast<char>(c == '\n' ? ' ' : c);
  const int status = pclose(said);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  return absl::UnavailableError(absl::StrCat("`", words, "` failed: ", text, "(two namespaces and a limited link need root, ip and tc)"));
}

constexpr absl::string_view kPrefix = "bench-";  // then the process's id, "-", the end

// Those of processes that are gone, where what kills them has killed the guard too.
void remove_leftovers() {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", failed)) {
    const std::string name = entry.path().filename().string();
    if (!absl::StartsWith(name, kPrefix)) continue;
    int process = 0;
    const bool ours = absl::SimpleAtoi(name.substr(kPrefix.size(), name.rfind('-') - kPrefix.size()), &process) && process > 0;
    if (ours && !std::filesystem::exists(absl::StrCat("/proc/", process), failed)) (void)command("ip netns delete " + name);
  }
}

}  // namespace

LinkedNamespaces::LinkedNamespaces() {
  for (std::size_t end = 0; end < names_.size(); ++end) {
    names_[end] = absl::StrCat(kPrefix, getpid(), "-", end);
    devices_[end] = absl::StrCat("bench", getpid(), end == 0 ? "a" : "b");  // 15 letters at most
  }
}

StatusOr<std::unique_ptr<LinkedNamespaces>> LinkedNamespaces::create() {
  std::unique_ptr<LinkedNamespaces> made(new LinkedNamespaces);
  TROUPE_RETURN_IF_ERROR(made->set_up());
  return made;
}

Status LinkedNamespaces::set_up() {
  remove_leftovers();
  TROUPE_ASSIGN_OR_RETURN(auto guard, OutlivingGuard::start([names = names_] {
                            for (const auto& name : names) (void)command("ip netns delete " + name);  // the devices go with them
                          }));
  guard_.emplace(std::move(guard));
  for (const auto& name : names_) TROUPE_RETURN_IF_ERROR(command("ip netns add " + name).status());
  TROUPE_RETURN_IF_ERROR(
      command(absl::StrCat("ip link add ", devices_[0], " netns ", names_[0], " type veth peer name ", devices_[1], " netns ", names_[1]))
          .status());
  for (std::size_t end = 0; end < names_.size(); ++end) {
    const std::string ip = "ip -n " + names_[end] + " ";
    TROUPE_RETURN_IF_ERROR(command(absl::StrCat(ip, "addr add 10.231.77.", end + 1, "/24 dev ", devices_[end])).status());
    TROUPE_RETURN_IF_ERROR(command(absl::StrCat(ip, "link set ", devices_[end], " up")).status());
    TROUPE_RETURN_IF_ERROR(command(absl::StrCat(ip, "link set lo up")).status());
  }
  // A device has no carrier before both are up, and the kernel says so up to a second later; UCX leaves out what has none.
  for (std::size_t end = 0; end < names_.size(); ++end) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (true) {
      TROUPE_ASSIGN_OR_RETURN(const std::string state, command(absl::StrCat("ip -n ", names_[end], " link show dev ", devices_[end])));
      if (state.find("state UP") != std::string::npos) break;
      if (std::chrono::steady_clock::now() > due) return absl::UnavailableError(absl::StrCat(devices_[end], " does not come up: ", state));
    }
  }
  return ok();
}

// A bucket of a few of the kernel's largest packets: smaller ones are dropped, larger ones pass in bursts above the rate.
Status LinkedNamespaces::limit(double bytes_per_s) {
  if (bytes_per_s <= 0 && !limited_) return ok();
  for (std::size_t end = 0; end < names_.size(); ++end) {
    const std::string tc = "tc -n " + names_[end] + " qdisc ";
    if (bytes_per_s <= 0) {
      TROUPE_RETURN_IF_ERROR(command(absl::StrCat(tc, "del dev ", devices_[end], " root")).status());
    } else {
      TROUPE_RETURN_IF_ERROR(command(absl::StrCat(tc, "replace dev ", devices_[end], " root tbf rate ",
                                                  static_cast<long long>(bytes_per_s * 8), "bit burst 256kb latency 50ms"))
                                 .status());
    }
  }
  limited_ = bytes_per_s > 0;
  return ok();
}

}  // namespace troupe::bench
