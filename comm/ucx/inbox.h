// How other threads reach the progress thread: a queue of commands and the descriptor that wakes it. While it sleeps its place can be
// borrowed: who has one frame to send then does so itself, and nobody need wake up for it.
//
// Threads: push, stop, borrow, give_back, on_progress_thread by any; the rest by the progress thread. Shared with bulks that
// outlive the transport: after close() nothing gets in, and what was pushed in vain is destroyed by the
// pusher.
#pragma once

#include <atomic>
#include <cstdint>
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
  // True: the progress thread sleeps, the queue is empty, and until give_back() this thread alone touches what is the progress thread's.
  bool borrow();
  // `wake`: there is something to do for it now.
  void give_back(bool wake);
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
  // Waits for who has borrowed; that takes no longer than to post a frame.
  void awake();
  int event_fd() const { return event_fd_; }

 private:
  enum class Place : std::uint8_t { kAwake, kAsleep, kBorrowed };

  void wake();
  bool move_place(Place from, Place to) { return place_.compare_exchange_strong(from, to); }
  bool called() const { return waiting_.load() || stopped_.load(); }

  int event_fd_ = -1;
  std::atomic<std::thread::id> owner_{};
  std::atomic<bool> stopped_{false}, waiting_{false};
  std::atomic<Place> place_{Place::kAwake};
  std::mutex mutex_;
  std::vector<Command> commands_;  // by mutex_
  bool closed_ = false;            // by mutex_
};

}  // namespace troupe::comm
