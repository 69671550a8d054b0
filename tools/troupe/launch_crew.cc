#include "tools/troupe/launch_crew.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "runtime/trace/state_file.h"

namespace troupe::tool {
namespace {

// After a rank's end so much is still read of what lies in its pipes: they hold 64 KiB.
constexpr int kLastReads = 16;
// Open files: a rank's two pipes, its connection to the store and its log; ours, with strangers at the store and what a start takes.
constexpr int kFilesOfARank = 4, kFilesOfOurs = 40;

}  // namespace

LocalCrew::~LocalCrew() {
  signal(SIGKILL);
  for (auto& member : members_) {
    if (member.child.running()) {
      waitpid(member.child.pid, nullptr, 0);
      guard_.forget(member.child.pid);
    }
    close_one(member.child.out);
    close_one(member.child.err);
  }
}

int LocalCrew::files_needed(int ranks) { return kFilesOfOurs + ranks * kFilesOfARank; }

std::string LocalCrew::state_path(Rank rank) const { return absl::StrCat(guard_.folder(), "/state-", rank.value); }

void LocalCrew::start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) {
  for (const auto& rank : ranks) {
    // What the user has asked for comes last and counts.
    std::vector<std::string> variables{absl::StrCat(kMarkVariable, "=", guard_.mark())};
    if (!guard_.folder().empty()) {
      if (std::getenv("UCX_POSIX_DIR") == nullptr) variables.push_back(absl::StrCat("UCX_POSIX_DIR=", guard_.folder()));
      variables.push_back(absl::StrCat(trace::kStateFileVariable, "=", state_path(rank.rank)));
    }
    variables.insert(variables.end(), rank.variables.begin(), rank.variables.end());
    auto child = start_child({program, variables}, guard_);
    if (!child.ok()) {
      listener_.on_crew_failed(absl::StrCat(child.status().message(), " (on ", host(), ")"),
                               absl::IsNotFound(child.status())           ? kNotFound
                               : absl::IsPermissionDenied(child.status()) ? kNotExecutable
                                                                          : 1);
      return;
    }
    members_.push_back({rank.rank, *child});
  }
}

void LocalCrew::add_descriptors(std::vector<pollfd>& polled, bool room) const {
  if (!room) return;
  for (const auto& member : members_) {
    for (const int fd : {member.child.out, member.child.err}) {
      if (fd >= 0) polled.push_back({fd, POLLIN, 0});
    }
  }
}

void LocalCrew::read(Member& member, int& fd, Stream stream) {
  if (std::string bytes; read_some(fd, bytes)) listener_.on_output(member.rank, stream, bytes);
}

void LocalCrew::ready(int fd) {
  for (auto& member : members_) {
    if (member.child.out == fd) read(member, member.child.out, Stream::kOut);
    else if (member.child.err == fd) read(member, member.child.err, Stream::kErr);
  }
}

// A debugger's stops are none of these.
void LocalCrew::look_whether_it_stands(const Member& member) {
  siginfo_t info{};
  while (member.child.running() &&
         waitid(P_PID, static_cast<id_t>(member.child.pid), &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
         info.si_pid == member.child.pid) {
    listener_.on_stopped(member.rank, info.si_code != CLD_CONTINUED);
    info = {};
  }
}

void LocalCrew::reap() {
  for (auto& member : members_) {
    Ending ending;
    look_whether_it_stands(member);
    if (!reap_child(member.child, guard_, ending)) continue;
    // Everybody who could write is dead, but for one who left the group: what lies there now is all.
    for (int i = 0; i < kLastReads; ++i) {
      read(member, member.child.out, Stream::kOut);
      read(member, member.child.err, Stream::kErr);
    }
    close_one(member.child.out);
    close_one(member.child.err);
    if (!guard_.folder().empty()) ending.last_state = trace::read_state(state_path(member.rank));
    listener_.on_ended(member.rank, ending);
  }
  leftovers_.look();
}

bool LocalCrew::owns(pid_t child) const {
  return std::ranges::any_of(members_, [&](const Member& member) { return member.child.pid == child; });
}

void LocalCrew::signal(int number) {
  for (const auto& member : members_) kill_group(member.child, number);
  if (number == SIGKILL) leftovers_.hurry();
}

comm::Deadline LocalCrew::keep_time(bool) {
  if (any_runs()) return comm::Deadline::max();
  return leftovers_.end([&](const std::string& line) { listener_.on_host_line(host(), line); });
}

bool LocalCrew::any_runs() const {
  return std::ranges::any_of(members_, [](const Member& member) { return member.child.running(); });
}

}  // namespace troupe::tool
