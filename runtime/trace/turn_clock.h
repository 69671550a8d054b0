// When an actor's handlers begin and end and when it sends, by as few readings of the processor's counter as can be: one costs as much as all else
// that a probe does for a message.
//
// A handler begins where the one before it has ended, if it is of the same turn of the actor, or if that one was on this thread and sent its message: in
// between the thread only freed that one's message and took out this one. Handlers of a kind that takes less than kQuick_ns, on average and the last time
// that it was timed, are timed one in kTimedApart, by chance, and where the actor's last one began kRested_ns before; the others have taken as long as that
// last one, and what any of them sends is sent when it began. All else is read. With a Clock instead of the counter everything is.
//
// Threads: the actor's own context. Errors: where handlers are as quick as usual, of a time at most kGuessedMost x kQuick_ns; one that takes long
// against its habit is seen while it runs (it began then at the earliest), and has its true time if it is one of the timed. Invariants: a message that waited
// for a thread to wake has waited (TurnClockTest.ReadsTheClockAtTheBeginOfATurn), however late the quick one that sent it did
// (TurnClockTest.DoesNotTrustAGuessOfAnotherThread), and whatever the actor's pause (TurnClockTest.ReadsTheClockInDoubt); no handler begins before the
// actor's last (TurnClockTest.DoesNotBeginBeforeItsOwnLast); TurnClockTest.TimesSomeOfTheQuick, TurnClockTest.TimesWhoHasRested.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "runtime/trace/ticks.h"

namespace troupe::trace {

class TurnClock {
 public:
  static constexpr std::int64_t kQuick_ns = 1000;
  static constexpr std::uint32_t kTimedApart = 64;
  static constexpr std::int64_t kRested_ns = 100'000;
  static constexpr std::uint32_t kGuessedMost = 64;  // handlers one after the other, on a thread
  static constexpr std::uint64_t kTimedFirst = 64;   // of a kind, whatever they take
  static constexpr std::uint64_t kNotKnown = ~std::uint64_t{0};

  // When a message was sent. `guessed_on`: that is when its sender's handler began, on that thread; null: it was read.
  struct Sent {
    std::uint64_t at = kNotKnown;
    const void* guessed_on = nullptr;
  };

  void start(const Ticks& ticks) {
    quick_ = static_cast<std::uint32_t>(ticks.in_ticks(kQuick_ns));
    rested_ = static_cast<std::uint32_t>(ticks.in_ticks(kRested_ns));
    counts_ = ticks.counts();
  }
  // The actor begins to take messages, on this thread.
  void begin_turn() { follows_ = false; }
  // Something else went on since the last handler, on this thread and with this actor.
  void doubt() {
    follows_ = false;
    ended_ = ~std::uint64_t{0};
    last_handler.guesses_left = 0;
  }

  // Around a handler that is timed. Gives when it began, then how long it took.
  std::uint64_t begin(const Ticks& ticks, const Sent& sent) {
    const LastHandler& before = last_handler;
    const bool is_known = counts_ && follows(before, sent) && before.guesses_left == kGuessedMost;
    const std::uint64_t begun = is_known ? before.ended : std::max(begun_.load(std::memory_order_relaxed), ticks.now());  // of a core that is behind
    begun_.store(begun, std::memory_order_relaxed);
    return begun;
  }
  std::uint64_t end(const Ticks& ticks) {
    ended_ = ticks.now();
    follows_ = true;
    if (counts_) last_handler = {ended_, kGuessedMost};
    return ended_ - begun();
  }
  // How many of its kind are not timed before the next one is, after `handled` of them took `ticks` in all and the last of them `last`.
  std::uint32_t untimed_after(std::uint64_t handled, std::uint64_t ticks, std::uint64_t last) const {
    if (!counts_ || handled < kTimedFirst || last >= quick_ || ticks >= handled * quick_) return 0;
    return static_cast<std::uint32_t>((handled * 0x9E3779B97F4A7C15u >> 40) % (2 * kTimedApart - 1));
  }
  // Around one that is not; nothing is to be done at its end. 0: it is to be timed.
  std::uint64_t begin_untimed(const Ticks& ticks, const Sent& sent) {
    LastHandler& before = last_handler;
    if (before.guesses_left == 0 || !follows(before, sent)) [[unlikely]] before = {ticks.now(), kGuessedMost};
    follows_ = true;
    if (before.ended - begun() > rested_) [[unlikely]] return 0;
    --before.guesses_left;
    begun_.store(before.ended, std::memory_order_relaxed);
    return before.ended;
  }
  // Of a message that is sent in a handler that is not timed.
  Sent guess() const { return {.at = begun(), .guessed_on = &last_handler}; }

  // Of the last handler; by any thread.
  std::uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }
  bool is_quick(std::uint64_t ticks) const { return ticks < quick_; }

 private:
  // Of any actor, on this thread. By the counter only: clocks of deterministic worlds are not each other's.
  struct LastHandler {
    std::uint64_t ended;
    std::uint32_t guesses_left;  // kGuessedMost: `ended` was read; 0: it is not known what was since
  };
  // A thread's, since it is what a thread has done that tells when the next handler can begin. Reached without a call.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local LastHandler last_handler{0, 0};

  bool follows(const LastHandler& before, const Sent& sent) const {
    return follows_ || (sent.guessed_on == &before && before.ended >= ended_ && before.ended >= begun());
  }

  std::atomic<std::uint64_t> begun_{0};
  std::uint64_t ended_ = 0;  // of the last one that was timed; above all times: it is in doubt
  std::uint32_t quick_ = 0, rested_ = 0;
  bool follows_ = false;  // the one before it was of this turn
  bool counts_ = false;
};

}  // namespace troupe::trace
