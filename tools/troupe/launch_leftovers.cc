#include "tools/troupe/launch_leftovers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
extern "C" {  // which glibc 2.36 leaves out
#include <sys/pidfd.h>
}
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace troupe::tool {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> signal_marked(const std::string& mark, int signal) {
  const std::string variable = absl::StrCat(kMarkVariable, "=", mark);
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &pid)) continue;
    // Held before it is looked at: its number may be another's when the signal is sent.
    const int process = pidfd_open(pid, 0);
    if (process < 0) continue;
    if (contents(entry->path() / "environ").find(variable) != std::string::npos) {
      if (signal != 0) pidfd_send_signal(process, signal, nullptr, 0);
      std::string name = contents(entry->path() / "comm");
      std::erase(name, '\n');
      found.push_back(absl::StrCat(name, " (", pid, ")"));
    }
    close(process);
  }
  return found;
}

// Their own parents ask by pid, after SIGCHLD: an end that is not theirs to take is only looked at here.
void reap_orphans(absl::FunctionRef<bool(pid_t)> is_ours) {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 && !is_ours(info.si_pid)) {
    waitpid(info.si_pid, nullptr, WNOHANG);
    info = {};
  }
}

void Leftovers::hurry() {
  kill_at_ = std::min(kill_at_, std::chrono::steady_clock::now());
  look();
}

comm::Deadline Leftovers::end(absl::FunctionRef<void(const std::string& line)> say) {
  const auto now = std::chrono::steady_clock::now();
  if (gone_) return comm::Deadline::max();
  if (now < look_at_) return look_at_;
  const bool first = !std::exchange(told_, true);
  if (first) kill_at_ = std::min(kill_at_, now + kEndWithin);
  const bool kill = now >= kill_at_;
  const auto left = signal_marked(mark_, kill ? SIGKILL : first ? SIGTERM : 0);
  gone_ = left.empty() || now >= kill_at_ + kGoneWithin;
  if (kill && !left.empty() && (!std::exchange(killed_, true) || gone_)) {
    say(absl::StrCat("left running by ranks, ", gone_ ? "not ended by SIGKILL: " : "not ended by SIGTERM and killed: ",
                     absl::StrJoin(left, ", ")));
  }
  if (gone_) return comm::Deadline::max();
  look_at_ = now + kLookEvery;
  return kill ? look_at_ : std::min(look_at_, kill_at_);
}

}  // namespace troupe::tool
