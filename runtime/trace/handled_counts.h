// How many messages of each type an actor has handled, how long they waited and how long their handlers took. Handlers that are not timed
// (turn_clock.h says which) cost a few plain stores: the next of their kind that is timed counts for them, and until then they are what is missing of
// those that were to come before it.
//
// Threads: the actor's own context adds; `total` and `read` by any thread at any time. Limits: kTypes types. Errors: a reader that finds the writer in the
// middle for kPatience (it has been stopped there) takes the counts as they are, in which what one change moves may be counted twice or not
// (HandledCountsTest.WaitsForAChangeButNotForEver). Invariants: every handled message is in
// one type and one bucket of each histogram (QuickProbe.CountsTheUntimed), also while it is counted (Probe.IsReadWhileTheQuickAreCounted).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "runtime/trace/snapshot.h"
#include "runtime/trace/ticks.h"

namespace troupe::trace {

// An add by the only writer: no locked instruction.
template <class T>
void bump(std::atomic<T>& counter, std::type_identity_t<T> by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_release);
}

class HandledCounts {
 public:
  static constexpr int kTypes = 48;
  static constexpr std::chrono::milliseconds kPatience{250};

  // One type.
  struct Kind {
    std::atomic<std::uint32_t> type{0};
    std::atomic<std::uint32_t> last_ticks{0};                // that the last timed one took
    std::atomic<std::uint32_t> untimed{0}, untimed_left{0};  // from the last timed one to the next
    std::atomic<std::uint64_t> handled{0}, ticks{0};         // up to the last timed one

    bool is_next_timed() const { return untimed_left.load(std::memory_order_relaxed) == 0; }
    std::uint64_t since_timed() const { return untimed.load(std::memory_order_acquire) - untimed_left.load(std::memory_order_acquire); }
  };
  // What there would be of a kind with one more that took `spent`.
  struct Habit {
    std::uint64_t handled = 0, ticks = 0;
  };
  static Habit habit_with(const Kind& kind, std::uint64_t spent);

  // The place of a type; -1: there are kTypes.
  int add_type(std::uint32_t type);
  Kind& kind(int slot) { return kinds_[static_cast<std::size_t>(slot)]; }
  // Before a handler that is not timed, whose message waited so many ticks; above `most`: that is not known.
  void expect_wait(std::uint64_t waited, std::uint64_t most, const Ticks& ticks) {
    if (waited - usual_wait_low_ >= usual_wait_span_) [[unlikely]] change_usual_wait(waited <= most ? waited : 0, ticks);
  }
  void add_untimed(Kind& kind) {
    kind.untimed_left.store(kind.untimed_left.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    bump(handled_, 1);
  }
  // One that was timed; the next `untimed` of its kind are not.
  void add(Kind& kind, std::uint64_t waited, std::uint64_t spent, std::uint32_t untimed, const Ticks& ticks);

  std::uint64_t total() const { return handled_.load(std::memory_order_acquire); }
  // Fills in what was handled, in detail by type and time.
  void read(ActorRow& row, const Ticks& ticks, const std::function<std::string(std::uint32_t)>& type_name, Detail detail) const;

 private:
  friend struct ChangeOfCounts;  // of a test, which stays in the middle of one
  using Times = std::array<std::atomic<std::uint64_t>, Ticks::kBounds + 1>;
  static auto& in_bucket(Times& times, std::uint64_t spent, const Ticks& ticks) { return times[static_cast<std::size_t>(ticks.bucket(spent))]; }
  void settle_waits();
  void change_usual_wait(std::uint64_t waited, const Ticks& ticks);

  std::atomic<std::uint64_t> handled_{0};
  std::uint64_t usual_wait_low_ = 0, usual_wait_span_ = 0;  // ticks that are certainly in usual_wait_
  std::array<Kind, kTypes> kinds_{};
  std::atomic<int> types_{0};
  std::atomic<int> usual_wait_{0};               // the bucket of in_mailbox_ for those that it has not counted yet
  std::atomic<std::uint64_t> waits_counted_{0};  // of handled_, those that in_mailbox_ has
  std::atomic<std::uint64_t> version_{0};        // odd while more changes than what an untimed one does
  Times in_mailbox_{}, in_handler_{};
};

}  // namespace troupe::trace
