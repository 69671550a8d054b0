#include "tools/troupe/launch_signals.h"

#include <sys/signalfd.h>

#include "tools/troupe/ignored_signals.h"

namespace troupe::tool {

int listen_to_signals(std::span<const int> numbers) {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int number : numbers) {
    if (ignored_at_start(number)) std::signal(number, SIG_IGN);
    else sigaddset(&signals, number);
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace troupe::tool
