// How other threads reach the progress thread: a queue of commands and the descriptor that wakes it.
//
// Threads: push, stop, on_progress_thread by any; the rest by the progress thread. Shared with bulks that
// outlive the transport: after close() nothing gets in, and what was pushed in vain is destroyed by the
// pusher.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "comm/ucx/open_frame.h"

namespace troupe::comm {

class Inbox {
 public:
  using Command = std::variant<std::unique_ptr<OpenSend>, absl::AnyInvocable<void()>>;

  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void push(Command command);
  void stop();
  bool on_progress_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  void open() { owner_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  // Everything in the queue, in order; empty most of the time, and cheap then.
  std::vector<Command> take();
  // Nothing more gets in.
  std::vector<Command> close();
  // False: something has come, do not sleep. True: who pushes makes event_fd() readable until awake().
  bool fall_asleep();
  void awake();
  int event_fd() const { return event_fd_; }

 private:
  void wake();

  int event_fd_ = -1;
  std::atomic<std::thread::id> owner_{};
  std::atomic<bool> stopped_{false}, waiting_{false}, asleep_{false};
  std::mutex mutex_;
  std::vector<Command> commands_;  // by mutex_
  bool closed_ = false;            // by mutex_
};

}  // namespace troupe::comm
