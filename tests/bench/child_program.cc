#include "tests/bench/child_program.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"

namespace troupe::bench {
namespace {

std::string contents(int fd) {
  struct stat about{};
  fstat(fd, &about);
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  const ssize_t bytes = pread(fd, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, bytes)));
  return text;
}

}  // namespace

StatusOr<ChildProgram> ChildProgram::start(const std::vector<std::string>& words) {
  ChildProgram child;
  child.out_ = memfd_create("out", MFD_CLOEXEC);
  child.err_ = memfd_create("err", MFD_CLOEXEC);
  if (child.out_ < 0 || child.err_ < 0) return absl::UnavailableError(absl::StrCat("no file in memory: ", std::strerror(errno)));
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  child.pid_ = fork();
  if (child.pid_ < 0) return absl::UnavailableError(absl::StrCat("no process: ", std::strerror(errno)));
  if (child.pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(child.out_, STDOUT_FILENO);
    dup2(child.err_, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  return child;
}

ChildProgram::~ChildProgram() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    const auto due = std::chrono::steady_clock::now() + kEndPatience;
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > due) kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

int ChildProgram::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ChildProgram::out() const { return contents(out_); }
std::string ChildProgram::err() const { return contents(err_); }

StatusOr<ProgramEnd> run_program(const std::vector<std::string>& words) {
  const auto begin = std::chrono::steady_clock::now();
  TROUPE_ASSIGN_OR_RETURN(auto child, ChildProgram::start(words));
  ProgramEnd end{.exit_code = child.wait()};
  end.took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  end.out = child.out();
  end.err = child.err();
  return end;
}

}  // namespace troupe::bench
