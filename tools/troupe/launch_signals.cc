#include "tools/troupe/launch_signals.h"

#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace troupe::tool {
namespace {

std::uint64_t ignored_at_start = 0;  // a bit each

// UCX, when it is loaded, puts a handler in place of an ignored SIGHUP. This runs before any library's code and makes bare system calls.
__attribute__((no_sanitize("address", "thread", "undefined"))) void note_ignored(int, char**, char**) {
  struct {  // the kernel's
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } action{};
  for (const int number : kPassedOn) {
    if (syscall(SYS_rt_sigaction, number, nullptr, &action, sizeof action.mask) == 0 && action.handler == SIG_IGN)
      ignored_at_start |= std::uint64_t{1} << number;
  }
}
__attribute__((section(".preinit_array"), used)) void (*const at_start)(int, char**, char**) = note_ignored;

}  // namespace

int listen_to_signals(std::span<const int> numbers) {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int number : numbers) {
    if ((ignored_at_start >> number & 1) != 0) std::signal(number, SIG_IGN);
    else sigaddset(&signals, number);
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace troupe::tool
