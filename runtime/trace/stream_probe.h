// What is seen of one stream from outside, without its help: how busy it is, what it works at since when, its last operations.
//
// An operation is what its owner calls so (runtime/device/shown.h): a block's forward pass, an update, a file written; not each kernel.
// Threads: `queued` by any; `begin` to `end_wait` by the stream's own, one at a time; readers by any at any time. Writers never lock,
// never wait: a few plain stores an operation, and four a piece of work; readers lock against each other only. Limits: the last kOperations;
// busy time a step of the last kSteps. Invariants: a reader never gets a torn operation, and is told how many it has missed
// (StreamProbeTest.CountsTheOperationsItLost, StreamProbe.NeverShowsATornOperation).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/trace/enabled.h"
#include "runtime/trace/operation.h"
#include "runtime/trace/report.h"
#include "runtime/trace/ticks.h"

namespace troupe::trace {

// One that has ended, or is running at the time of the look: its end is then that time.
struct OperationRow {
  std::string name;
  std::int64_t step = -1;
  std::int32_t micro_batch = -1;
  std::int64_t begin_ns = 0, end_ns = 0;  // on the probes' time
  std::int64_t waited_ns = 0;             // of that, for events of other streams and for its own next work
  bool operator==(const OperationRow&) const = default;
};

class StreamProbe {
 public:
  static constexpr std::uint64_t kOperations = 4096;
  static constexpr std::uint64_t kSteps = 16;

  explicit StreamProbe(std::string name, Ticks ticks = Ticks());

  // --- by whoever enqueues ---
  void queued() {
    if constexpr (kProbes) queued_.fetch_add(1, std::memory_order_relaxed);
  }

  // --- by the stream ---
  void begin(const Operation& operation);  // ends the one before, if nobody did
  void end();
  // Around each piece of work, whether it belongs to an operation or not.
  void begin_work() {
    if constexpr (kProbes) change(work_since_, ticks_.now());
  }
  void end_work() {
    if constexpr (!kProbes) return;
    const std::uint64_t spent = ticks_.now() - work_since_.load(std::memory_order_relaxed);
    const Changing changing(*this);
    bump(busy_, spent);
    work_since_.store(0, std::memory_order_release);
  }
  void begin_wait() {
    if constexpr (kProbes) wait_since_ = ticks_.now();
  }
  void end_wait() {
    if constexpr (kProbes) bump(waited_, ticks_.now() - wait_since_);
  }

  // --- read by anybody ---
  const std::string& name() const { return name_; }
  const Ticks& ticks() const { return ticks_; }
  std::int64_t busy_ns() const;  // with the work that runs now
  std::int64_t waited_ns() const { return ticks_.ns(waited_.load(std::memory_order_relaxed)); }
  // The busy share is that of the time since an earlier look, at least kLookNs ago, or since the start.
  static constexpr std::int64_t kLookNs = 1'000'000'000;
  StreamRow row() const;

  struct Operations {
    std::vector<OperationRow> rows;
    std::uint64_t first = 0;  // number of the first row; they are counted from 0
    std::int64_t lost = 0;    // overwritten, of those from `since` on
  };
  // Those from number `since` on that the ring still holds and that ended after `after_ns`, oldest first.
  Operations operations_since(std::uint64_t since, std::int64_t after_ns = INT64_MIN) const;
  // The one that runs now.
  bool running(OperationRow& row) const;

 private:
  struct Record {
    std::atomic<const char*> what{""};
    std::atomic<std::uint64_t> numbers{0};  // block, micro-batch
    std::atomic<std::int64_t> step{-1};
    std::atomic<std::uint64_t> begin{0}, end{0}, busy{0};
  };
  struct StepBusy {
    std::atomic<std::int64_t> step{-1};
    std::atomic<std::uint64_t> busy{0};
  };
  // Readers see what changes under one of these as a whole.
  class Changing {
   public:
    explicit Changing(StreamProbe& probe) : version_(probe.version_) {
      version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
    }
    ~Changing() { version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

   private:
    std::atomic<std::uint64_t>& version_;
  };
  template <class Read>
  void read_whole(const Read& read) const;
  template <class T>
  void change(std::atomic<T>& word, T value) {
    const Changing changing(*this);
    word.store(value, std::memory_order_release);
  }
  static void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_release);
  }
  void count_in_step(std::int64_t step, std::uint64_t busy);
  OperationRow row_of(const char* what, std::uint64_t numbers, std::int64_t step) const;
  std::int64_t median_step_busy_ns() const;

  const std::string name_;
  const Ticks ticks_;

  alignas(64) std::atomic<std::uint64_t> queued_{0};  // the enqueuers' line

  alignas(64) std::atomic<std::uint64_t> version_{0};  // odd while what is under Changing changes
  std::atomic<std::uint64_t> busy_{0}, work_since_{0};
  std::atomic<const char*> what_{nullptr};  // of the operation that runs; null: none
  std::atomic<std::uint64_t> numbers_{0}, begun_at_{0}, busy_before_{0};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::uint64_t> waited_{0}, begun_{0}, ended_{0}, writing_{0};
  std::uint64_t wait_since_ = 0;  // the stream's own
  std::vector<Record> ring_{kOperations};
  std::vector<StepBusy> steps_{kSteps};
  std::int64_t newest_step_ = -1;  // the stream's own
  std::atomic<std::int64_t> newest_finished_{-1};

  struct Look {
    std::int64_t at_ns = 0, busy_ns = 0;
  };
  mutable std::mutex looks_mutex_;  // guards what follows; readers only
  mutable Look older_, newer_;
};

}  // namespace troupe::trace
