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

// Either this sees that it sleeps, or whoever moves the place next (the thread falling asleep, who gives it back) looks again afterwards
// and sees what was stored before.
void Inbox::wake() {
  if (!move_place(Place::kAsleep, Place::kAwake)) return;
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

bool Inbox::borrow() {
  if (place_.load(std::memory_order_relaxed) != Place::kAsleep || !move_place(Place::kAsleep, Place::kBorrowed)) return false;
  if (!called()) return true;
  give_back(false);
  return false;
}

void Inbox::give_back(bool wake_it) {
  place_.store(Place::kAsleep);
  if (wake_it || called()) wake();
}

bool Inbox::fall_asleep() {
  place_.store(Place::kAsleep);
  if (!called()) return true;
  awake();
  return false;
}

void Inbox::awake() {
  while (!move_place(Place::kAsleep, Place::kAwake) && place_.load() == Place::kBorrowed) std::this_thread::yield();
  std::uint64_t count = 0;
  while (read(event_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace troupe::comm
