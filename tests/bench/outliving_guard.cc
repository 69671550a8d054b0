#include "tests/bench/outliving_guard.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace troupe::bench {

StatusOr<OutlivingGuard> OutlivingGuard::start(const std::function<void()>& clean) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe for a guard: ", std::strerror(errno)));
  const pid_t child = fork();
  if (child == 0) {
    setsid();  // not reached by what a terminal sends
    close(ends[1]);
    char none;
    while (read(ends[0], &none, 1) < 0 && errno == EINTR) {
    }
    clean();
    _exit(0);
  }
  const int error = errno;
  close(ends[0]);
  if (child > 0) return OutlivingGuard(ends[1], child);
  close(ends[1]);
  return absl::UnavailableError(absl::StrCat("no process for a guard: ", std::strerror(error)));
}

OutlivingGuard::OutlivingGuard(OutlivingGuard&& other) noexcept
    : end_(std::exchange(other.end_, -1)), child_(std::exchange(other.child_, -1)) {}

OutlivingGuard::~OutlivingGuard() {
  if (child_ < 0) return;
  close(end_);
  waitpid(child_, nullptr, 0);
}

}  // namespace troupe::bench
