#include "tools/troupe/ignored_signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace troupe::tool {
namespace {

std::uint64_t ignored = 0;  // a bit each

// Before any library begins, so without any: the kernel's call and the kernel's struct.
__attribute__((no_sanitize("address", "thread", "undefined"))) void note_ignored(int, char**, char**) {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } action{};
  for (int signal = 1; signal < 32; ++signal) {
    if (syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) == 0 && action.handler == SIG_IGN) ignored |= std::uint64_t{1} << signal;
  }
}

__attribute__((section(".preinit_array"), used)) void (*const before_all_others)(int, char**, char**) = note_ignored;

}  // namespace

bool ignored_at_start(int signal) { return (ignored >> signal & 1) != 0; }

}  // namespace troupe::tool
