#include "tools/troupe/launch_crew.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"
#include "tools/troupe/state_file.h"

namespace troupe::tool {
namespace {

// After a rank's end so much is still read of what lies in its pipes: they hold 64 KiB.
constexpr int kLastReads = 16;

struct Pipe {
  int read = -1, write = -1;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  TROUPE_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0)
      << "pipe: " << std::strerror(errno) << ": more open files are needed (ulimit -n)";
  return {ends[0], ends[1]};
}

void close_one(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// Ours with `variables` in place of what they name.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view ours(*at);
    const auto name = ours.substr(0, ours.find('=') + 1);
    if (std::ranges::none_of(variables, [&](const std::string& variable) { return variable.starts_with(name); }))
      all.emplace_back(ours);
  }
  all.insert(all.end(), variables.begin(), variables.end());
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only async-signal-safe calls.
struct BetweenForkAndExec {
  pid_t parent;
  int guard_fd, in, out, err, failed;
  char** argv;
  char** environment;

  [[noreturn]] void go() const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotFound);  // it died before the line above
    Guard::watch(guard_fd, getpid());
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    environ = environment;  // execvp looks along its PATH
    execvp(argv[0], argv);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failed, &error, sizeof error);
    _exit(kNotFound);
  }
};

}  // namespace

std::string Ending::text() const {
  if (signal == 0) return absl::StrCat("exited with code ", code);
  const char* name = sigabbrev_np(signal);
  return absl::StrCat("died of signal ", signal, name ? absl::StrCat(" (SIG", name, ")") : "");
}

namespace {

// Who was killed may still be making a file.
void clear(const std::string& folder) {
  if (folder.empty()) return;
  for (int tries = 0; tries < 200; ++tries) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (!error && !std::filesystem::exists(folder, error)) return;
    poll(nullptr, 0, 10);
  }
}

}  // namespace

Guard::Guard() {
  std::string pattern = "/dev/shm/troupe-job-XXXXXX";
  if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
  const Pipe pipe = make_pipe();
  fd_ = pipe.write;
  pid_ = fork();
  TROUPE_CHECK(pid_ >= 0) << "fork: " << std::strerror(errno);
  if (pid_ > 0) {
    close(pipe.read);
    return;
  }
  // It does not die of what is meant for the job, and keeps nobody's pipe open.
  setpgid(0, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int in = dup2(pipe.read, STDIN_FILENO);
  close_range(STDOUT_FILENO, UINT_MAX, 0);
  std::vector<pid_t> groups;
  pid_t change = 0;
  while (read(in, &change, sizeof change) == sizeof change) {
    if (change > 0) groups.push_back(change);
    else std::erase(groups, -change);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  clear(folder_);
  _exit(0);
}

Guard::~Guard() {
  close(fd_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::watch(int guard_fd, pid_t group) { [[maybe_unused]] const ssize_t written = write(guard_fd, &group, sizeof group); }
void Guard::forget(pid_t group) const { watch(fd_, -group); }

StatusOr<Child> start_child(const ChildStart& start, const Guard& guard) {
  std::vector<std::string> program = start.program, environment = environment_with(start.variables);
  const auto argv = pointers_to(program), variables = pointers_to(environment);
  const Pipe out = make_pipe(), err = make_pipe(), failed = make_pipe();
  const Pipe in = start.with_stdin ? make_pipe() : Pipe{open("/dev/null", O_RDONLY | O_CLOEXEC), -1};
  const BetweenForkAndExec between{getpid(),
                                   guard.descriptor(),
                                   in.read,
                                   out.write,
                                   err.write,
                                   failed.write,
                                   const_cast<char**>(argv.data()),
                                   const_cast<char**>(variables.data())};
  Child child{fork(), in.write, out.read, err.read};
  if (child.pid == 0) between.go();
  const int fork_error = errno;
  for (const int fd : {in.read, out.write, err.write, failed.write}) close(fd);
  for (const int fd : {in.write, out.read, err.read}) {
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  int error = 0;
  ssize_t count = 0;
  if (child.pid < 0) {
    error = fork_error;
    count = sizeof error;
  } else {
    setpgid(child.pid, child.pid);  // whoever comes first, the child or we
    while ((count = read(failed.read, &error, sizeof error)) < 0 && errno == EINTR) {
    }
  }
  close(failed.read);
  if (count <= 0) return child;
  for (int fd : {child.in, child.out, child.err}) close_one(fd);
  if (child.pid > 0) {
    waitpid(child.pid, nullptr, 0);
    guard.forget(child.pid);
  }
  const std::string what = absl::StrCat("cannot start ", start.program[0], ": ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(what) : absl::PermissionDeniedError(what);
}

bool reap_child(Child& child, const Guard& guard, Ending& ending) {
  if (!child.running()) return false;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != child.pid)
    return false;
  kill(-child.pid, SIGKILL);  // while its id is still nobody else's
  int status = 0;
  waitpid(child.pid, &status, 0);
  guard.forget(child.pid);
  child.pid = -1;
  ending = WIFSIGNALED(status) ? Ending{.signal = WTERMSIG(status)} : Ending{.code = WEXITSTATUS(status)};
  return true;
}

void kill_group(const Child& child, int signal) {
  if (child.running()) kill(-child.pid, signal);
}

bool read_some(int& fd, std::string& bytes) {
  if (fd < 0) return false;
  std::array<char, 1 << 14> part;
  const ssize_t count = read(fd, part.data(), part.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    close_one(fd);
    return false;
  }
  bytes.assign(part.data(), static_cast<std::size_t>(count));
  return true;
}

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

std::string LocalCrew::state_path(Rank rank) const { return absl::StrCat(guard_.folder(), "/state-", rank.value); }

void LocalCrew::start(const std::vector<RankStart>& ranks, const std::vector<std::string>& program) {
  for (const auto& rank : ranks) {
    auto variables = rank.variables;
    const bool has_folder = !guard_.folder().empty();
    if (has_folder && std::getenv("UCX_POSIX_DIR") == nullptr) variables.push_back(absl::StrCat("UCX_POSIX_DIR=", guard_.folder()));
    if (has_folder) variables.push_back(absl::StrCat(kStateFileVariable, "=", state_path(rank.rank)));
    auto child = start_child({program, variables}, guard_);
    if (!child.ok()) {
      listener_.on_crew_failed(absl::StrCat(child.status().message(), " (on ", host(), ")"),
                               absl::IsNotFound(child.status()) ? kNotFound : kNotExecutable);
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
    if (!guard_.folder().empty()) ending.last_state = read_state(state_path(member.rank));
    listener_.on_ended(member.rank, ending);
  }
}

void LocalCrew::signal(int number) {
  for (const auto& member : members_) kill_group(member.child, number);
}

bool LocalCrew::done() const {
  return std::ranges::none_of(members_, [](const Member& member) { return member.child.running(); });
}

}  // namespace troupe::tool
