#include "tools/top/saved_terminal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace troupe::top {
namespace {

constexpr int kCrashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
// A handler of signals has no other way to know.
SavedTerminal* volatile open_terminal = nullptr;

void write_all(int to, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(to, bytes, size);
    if (written <= 0) return;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

}  // namespace

void give_back_and_die(int signal) {
  if (SavedTerminal* terminal = open_terminal) {
    open_terminal = nullptr;
    write_all(STDOUT_FILENO, terminal->leave_.data(), terminal->leave_.size());
    terminal->give_back();
    terminal->tell_what_was_said();
  }
  raise(signal);  // SA_RESETHAND: of which it dies now
}

SavedTerminal::SavedTerminal(std::string leave) : leave_(std::move(leave)) {
  tcgetattr(STDIN_FILENO, &before_);
  if (isatty(STDERR_FILENO) == 1) {
    said_ = memfd_create("stderr", MFD_CLOEXEC);
    stderr_ = dup(STDERR_FILENO);
    if (said_ >= 0 && stderr_ >= 0) dup2(said_, STDERR_FILENO);
  }
  open_terminal = this;
  struct sigaction crash {};
  crash.sa_handler = give_back_and_die;
  crash.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : kCrashes) sigaction(signal, &crash, nullptr);
}

SavedTerminal::~SavedTerminal() {
  open_terminal = nullptr;
  for (const int signal : kCrashes) std::signal(signal, SIG_DFL);
  give_back();
  std::fflush(stderr);
  tell_what_was_said();
}

void SavedTerminal::give_back() const { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }

void SavedTerminal::tell_what_was_said() {
  if (stderr_ < 0 || said_ < 0) return;
  dup2(stderr_, STDERR_FILENO);
  lseek(said_, 0, SEEK_SET);
  char bytes[4096];
  for (ssize_t got = 0; (got = read(said_, bytes, sizeof bytes)) > 0;) write_all(STDERR_FILENO, bytes, static_cast<std::size_t>(got));
  close(said_);
  close(stderr_);
  said_ = stderr_ = -1;
}

}  // namespace troupe::top
