#include "comm/ucx/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "runtime/base/check.h"

namespace troupe::comm {

Inbox::Inbox() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TROUPE_CHECK(event_fd_ >= 0) << "no descriptor is left for the transport's wake-up";
}

Inbox::~Inbox() { ::close(event_fd_); }

void Inbox::push(Command command) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    commands_.push_back(std::move(command));
  }
  waiting_.store(true);
  wake();
}

void Inbox::stop() {
  stopped_.store(true);
  wake();
}

// Either this sees asleep_, or the progress thread, which sets it first, sees what was stored before.
void Inbox::wake() {
  if (!asleep_.exchange(false)) return;
  const std::uint64_t one = 1;
  while (write(event_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

std::vector<Inbox::Command> Inbox::take() {
  if (!waiting_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(mutex_);
  waiting_.store(false);
  return std::exchange(commands_, {});
}

std::vector<Inbox::Command> Inbox::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  owner_.store({}, std::memory_order_relaxed);
  return std::exchange(commands_, {});
}

bool Inbox::fall_asleep() {
  asleep_.store(true);
  if (!waiting_.load() && !stopped_.load()) return true;
  asleep_.store(false);
  return false;
}

void Inbox::awake() {
  asleep_.store(false);
  std::uint64_t count = 0;
  while (read(event_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace troupe::comm
