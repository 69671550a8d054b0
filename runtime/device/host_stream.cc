#include "runtime/device/host_stream.h"

#include <pthread.h>

namespace troupe::device {

HostStream::HostStream(std::string name, int threads, Buffer scratch)
    : name_(std::move(name)), team_(threads), scratch_(std::move(scratch)),
      probe_(std::make_shared<trace::StreamProbe>(name_)), thread_([this] { serve(); }) {
  pthread_setname_np(thread_.native_handle(), name_.substr(0, 15).c_str());
}

HostStream::~HostStream() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  filled_.notify_all();
  thread_.join();
}

void HostStream::push(Entry entry) {
  {
    std::lock_guard lock(mutex_);
    TROUPE_CHECK(queue_.size() < kCapacity) << "stream " << name_ << " is over-full";
    queue_.push_back(std::move(entry));
  }
  filled_.notify_one();
}

void HostStream::enqueue(Work work) { push({.work = std::move(work), .wait_for = {}}); }

Event HostStream::record() {
  std::uint64_t sequence = 0;
  {
    std::lock_guard lock(mutex_);
    TROUPE_CHECK(queue_.size() < kCapacity) << "stream " << name_ << " is over-full";
    sequence = ++recorded_;
    queue_.push_back({.work = {}, .wait_for = {}, .completes = sequence, .always = true});
  }
  filled_.notify_one();
  return Event(progress_, sequence);
}

void HostStream::wait(const Event& event) {
  TROUPE_CHECK(event.recorded()) << "stream " << name_ << " waits for an event that was never recorded";
  if (event.progress() == progress_ || event.done()) return;  // own order says it already
  push({.work = {}, .wait_for = event});
}

void HostStream::notify(Work then) { push({.work = std::move(then), .wait_for = {}, .always = true}); }

Status HostStream::first_error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void HostStream::synchronize() {
  progress_->wait_for(record().sequence());
}

void HostStream::serve() {
  StreamContext context{team_, scratch_.data(), scratch_.bytes()};
  bool failed = false;
  while (true) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      entry = std::move(queue_.front());
      queue_.pop_front();
    }
    if (entry.wait_for.recorded()) {
      probe_->begin_wait();
      entry.wait_for.progress()->wait_for(entry.wait_for.sequence());
      probe_->end_wait();
    }
    if (entry.work && (entry.always || !failed)) {
      probe_->begin_work();
      Status status = entry.work(context);
      probe_->end_work();
      if (!status.ok() && !failed) {
        failed = true;
        std::lock_guard lock(mutex_);
        error_ = std::move(status);
      }
    }
    if (entry.completes) progress_->reach(entry.completes);
  }
}

}  // namespace troupe::device
