// A stream runs work in the order in which it was enqueued. Work on different streams is ordered by events only.
//
// The host twin (host_stream.h) is one thread with its own team; the simulated twin runs its work when the deterministic world
// says so. The first error is kept: work enqueued after it is dropped, events still complete, first_error() tells.
//
// Threads: enqueue, record, wait, notify by one thread at a time (the device loop); Event::done by any.
// Invariant: a wait captures the record it was given; waiting for an event that was never recorded is a bug.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/device/team.h"
#include "runtime/trace/stream_probe.h"

namespace troupe::device {

// What enqueued work may use while it runs: the stream's compute threads and its scratch memory, which holds anything only
// until the work returns.
struct StreamContext {
  ThreadTeam& team;
  std::byte* scratch = nullptr;
  std::int64_t scratch_bytes = 0;
};

// A move-only function object kept inline: enqueueing allocates nothing.
class Work {
 public:
  static constexpr std::size_t kInlineBytes = 512;

  Work() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Work>)
  Work(F&& function) {  // NOLINT: lambdas are passed as they are
    using Stored = std::remove_cvref_t<F>;
    static_assert(sizeof(Stored) <= kInlineBytes, "captures too much; capture a pointer to it");
    static_assert(std::is_nothrow_move_constructible_v<Stored>);
    new (storage_) Stored(std::forward<F>(function));
    operations_ = &kOperations<Stored>;
  }
  Work(Work&& other) noexcept { take(other); }
  Work& operator=(Work&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Work() { reset(); }

  explicit operator bool() const { return operations_ != nullptr; }
  Status operator()(StreamContext& context) { return operations_->call(storage_, context); }

 private:
  struct Operations {
    Status (*call)(void*, StreamContext&);
    void (*move)(void* to, void* from);
    void (*destroy)(void*);
  };
  template <class F>
  static Status call(void* self, StreamContext& context) {
    if constexpr (std::is_same_v<std::invoke_result_t<F&, StreamContext&>, Status>) {
      return (*static_cast<F*>(self))(context);
    } else {
      (*static_cast<F*>(self))(context);
      return ok();
    }
  }
  template <class F>
  static constexpr Operations kOperations{&call<F>,
                                          [](void* to, void* from) {
                                            new (to) F(std::move(*static_cast<F*>(from)));
                                            static_cast<F*>(from)->~F();
                                          },
                                          [](void* self) { static_cast<F*>(self)->~F(); }};
  void take(Work& other) {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_) operations_->move(storage_, other.storage_);
  }
  void reset() {
    if (operations_) std::exchange(operations_, nullptr)->destroy(storage_);
  }

  const Operations* operations_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
};

// How far a stream has come; shared by the stream and the events recorded on it. Threads: any.
class StreamProgress {
 public:
  // By the stream alone: record number `sequence` has completed.
  void reach(std::uint64_t sequence) {
    {
      std::lock_guard lock(mutex_);
      completed_.store(sequence, std::memory_order_release);
    }
    moved_.notify_all();
  }
  bool has_reached(std::uint64_t sequence) const { return completed_.load(std::memory_order_acquire) >= sequence; }
  // Blocks: for a stream's own thread, tests and the end of main.
  void wait_for(std::uint64_t sequence) const {
    if (has_reached(sequence)) return;
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return has_reached(sequence); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;
  std::atomic<std::uint64_t> completed_{0};
};

// "All work enqueued before the record has completed." A value; empty until recorded.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const StreamProgress> progress, std::uint64_t sequence)
      : progress_(std::move(progress)), sequence_(sequence) {}

  bool recorded() const { return progress_ != nullptr; }
  bool done() const {
    TROUPE_CHECK(recorded()) << "asked for an event that was never recorded";
    return progress_->has_reached(sequence_);
  }
  const std::shared_ptr<const StreamProgress>& progress() const { return progress_; }
  std::uint64_t sequence() const { return sequence_; }

 private:
  std::shared_ptr<const StreamProgress> progress_;
  std::uint64_t sequence_ = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual void enqueue(Work work) = 0;
  virtual Event record() = 0;
  // Work enqueued after this call starts after `event` is done.
  virtual void wait(const Event& event) = 0;
  // Calls `then` once all work enqueued before has completed. `then` runs on the stream and must only post a message.
  virtual void notify(Work then) = 0;
  // The first error of any work; ok while there is none.
  virtual Status first_error() const = 0;
  virtual const std::string& name() const = 0;
  // How long this stream has stood waiting for events of other streams, so far. Any thread.
  virtual std::int64_t waited_ns() const { return 0; }
  // What is seen of it from outside; null where nobody looks: the deterministic world. Any thread.
  virtual trace::StreamProbe* probe() const { return nullptr; }
  virtual std::shared_ptr<const trace::StreamProbe> shared_probe() const { return nullptr; }
};

}  // namespace troupe::device
