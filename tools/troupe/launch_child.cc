#include "tools/troupe/launch_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
#include <optional>

#include "absl/strings/str_cat.h"
#include "comm/join/secret.h"
#include "runtime/base/check.h"
#include "tools/troupe/launch_leftovers.h"

namespace troupe::tool {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

// The pipes of a child's start: what is not let go of is closed, so that an error leaves nothing open.
class Pipes {
 public:
  Pipes() = default;
  ~Pipes() {
    for (const auto& pipe : open_) {
      for (const int fd : {pipe.read, pipe.write}) {
        if (fd >= 0) close(fd);
      }
    }
  }
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
  StatusOr<Pipe> make() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return refused(errno);
    return open_.emplace_back(Pipe{ends[0], ends[1]});
  }
  StatusOr<Pipe> empty_input() {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return refused(errno);
    return open_.emplace_back(Pipe{fd, -1});
  }
  void let_go() { open_.clear(); }

 private:
  static Status refused(int error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a process: ", std::strerror(error), error == EMFILE ? " (the limit RLIMIT_NOFILE, ulimit -n)" : ""));
  }
  std::vector<Pipe> open_;
};

std::optional<rlimit> limit_before;  // of open files, before raise_open_files()

// Ours with `variables` in place of what they name.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all;
  const auto add = [&](std::string_view variable) {
    const auto name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(all, [&](const std::string& other) { return other.starts_with(name); });
    all.emplace_back(variable);
  };
  for (char** at = environ; *at != nullptr; ++at) add(*at);
  for (const auto& variable : variables) add(variable);
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
  const rlimit* files;  // the limit of open files, if it is another than ours

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
    if (files != nullptr) setrlimit(RLIMIT_NOFILE, files);
    environ = environment;  // execvp looks along its PATH
    execvp(argv[0], argv);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failed, &error, sizeof error);
    _exit(kNotFound);
  }
};

}  // namespace

Status raise_open_files(int needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ok();
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit before = limit;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) limit_before = before;
    else limit = before;
  }
  if (limit.rlim_cur >= static_cast<rlim_t>(needed)) return ok();
  return absl::FailedPreconditionError(
      absl::StrCat("the hard limit of open files (RLIMIT_NOFILE) is ", limit.rlim_cur, ", and these ranks need ", needed,
                   ": raise it (ulimit -Hn ", needed, ", or LimitNOFILE= of the service) or start fewer ranks on this host"));
}

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

Guard::Guard() : mark_(comm::make_secret()) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string pattern = "/dev/shm/troupe-job-XXXXXX";
  if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
  Pipes pipes;
  const auto made = pipes.make();
  TROUPE_CHECK(made.ok()) << made.status().message();
  const Pipe pipe = *made;
  pipes.let_go();
  fd_ = pipe.write;
  pid_ = fork();
  TROUPE_CHECK(pid_ >= 0) << "fork: " << std::strerror(errno);
  if (pid_ > 0) {
    setpgid(pid_, pid_);  // whoever comes first: our group may be killed before it has run
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
  for (int tries = 0; tries < 200 && !signal_marked(mark_, SIGKILL).empty(); ++tries) poll(nullptr, 0, 10);
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
  Pipes pipes;
  TROUPE_ASSIGN_OR_RETURN(const Pipe out, pipes.make());
  TROUPE_ASSIGN_OR_RETURN(const Pipe err, pipes.make());
  TROUPE_ASSIGN_OR_RETURN(const Pipe failed, pipes.make());
  TROUPE_ASSIGN_OR_RETURN(const Pipe in, start.with_stdin ? pipes.make() : pipes.empty_input());
  pipes.let_go();
  const BetweenForkAndExec between{getpid(),
                                   guard.descriptor(),
                                   in.read,
                                   out.write,
                                   err.write,
                                   failed.write,
                                   const_cast<char**>(argv.data()),
                                   const_cast<char**>(variables.data()),
                                   limit_before ? &*limit_before : nullptr};
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

void close_one(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
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

}  // namespace troupe::tool
