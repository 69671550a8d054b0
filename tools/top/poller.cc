#include "tools/top/poller.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace troupe::top {

Poller::Poller(Question question, std::chrono::nanoseconds interval)
    : question_(std::move(question)), interval_(interval), waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

Poller::~Poller() {
  ends_within(std::chrono::nanoseconds(0));
  thread_.join();
  close(waker_);
}

std::optional<Answer> Poller::take() {
  eventfd_t count = 0;
  eventfd_read(waker_, &count);
  const std::lock_guard lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

void Poller::open(const std::string& actor) {
  const std::lock_guard lock(mutex_);
  if (actor == opened_) return;
  opened_ = actor;
  at_once_ = !actor.empty();
  changed_.notify_all();
}

bool Poller::ends_within(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  ending_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, patience, [&] { return done_; });
}

void Poller::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto next = std::chrono::steady_clock::now() + interval_;
    at_once_ = false;
    const std::string opened = opened_;
    lock.unlock();
    Answer answer = question_(opened);
    lock.lock();
    answer_ = std::move(answer);
    eventfd_write(waker_, 1);
    changed_.wait_until(lock, next, [&] { return ending_ || at_once_; });
  }
  done_ = true;
  changed_.notify_all();
}

}  // namespace troupe::top
