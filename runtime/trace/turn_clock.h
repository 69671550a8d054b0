// When an actor's handlers begin and end and when it sends, by as few readings of the processor's counter as can be: one costs as much as all else
// that a probe does for a message.
//
// A handler begins where the one before it on this thread, or of this actor, has ended, if its message lay in the mailbox by then: in between the
// thread only freed that one's message and took out this one. Handlers of a kind that takes less than kQuick_ns, on average and the last time that
// it was timed, are timed one in kTimedApart, by chance; the others have taken as long as that last one, and what any of them sends is sent when it
// began. All else is read. With a Clock instead of the counter everything is.
//
// Threads: the actor's own context. Errors: where handlers are as quick as usual, of a time at most kUntimedMost x kQuick_ns; one that takes
// long against its habit is seen while it runs (it began then at the latest), and has its true time if it is one of the timed. Invariants: a
// message that waited for a thread to wake has waited (TurnClockTest.ReadsTheClockAfterIdleness), however late the quick one that sent it did
// (TurnClockTest.DoesNotTrustAGuessOfAnotherThread); TurnClockTest.TimesSomeOfTheQuick.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/trace/ticks.h"

namespace troupe::trace {

class TurnClock {
 public:
  static constexpr std::int64_t kQuick_ns = 1000;
  static constexpr std::uint64_t kTimedApart = 16;
  static constexpr std::uint64_t kUntimedMost = 64;  // one after the other, on a thread
  static constexpr std::uint64_t kTimedFirst = 64;  // of a kind, whatever they take
  static constexpr std::uint64_t kNotKnown = ~std::uint64_t{0};

  // When a message was sent. `guessed_on`: that is when its sender's handler began, on that thread; null: it was read.
  struct Sent {
    std::uint64_t at = kNotKnown;
    const void* guessed_on = nullptr;
  };
  // Of handlers of one kind, up to now.
  struct Habit {
    std::uint64_t handled = 0, ticks = 0;
    std::uint64_t last = 0;  // ticks of the last that was timed
  };
  // Of handlers of a quick kind: no period of theirs goes along with it.
  static constexpr bool is_chosen(std::uint64_t handled) { return (handled * 0x9E3779B97F4A7C15u >> 40) % kTimedApart == 0; }

  void start(const Ticks& ticks) {
    quick_ = ticks.in_ticks(kQuick_ns);
    counts_ = ticks.counts();
  }
  std::uint64_t begin(const Ticks& ticks, const Sent& sent, const Habit& habit) {
    const LastHandler& before = last_handler;
    is_quick_ = counts_ && habit.handled >= kTimedFirst && habit.ticks < habit.handled * quick_ && habit.last < quick_;
    is_timed_ = !is_quick_ || is_chosen(habit.handled);
    last_ = habit.last;
    const std::uint64_t ended = std::max(before.ended, ended_);
    const bool lay_there = sent.guessed_on != nullptr ? sent.guessed_on == &before : sent.at != kNotKnown && sent.at + quick_ <= ended;
    const bool is_known = counts_ && lay_there && !doubts_ && before.untimed < (is_timed_ ? 1 : kUntimedMost);
    begun_ = is_known ? ended : ticks.now();
    begun_by_reading_ = !is_known;
    in_handler_ = true;
    doubts_ = false;
    return begun_;
  }
  // Gives how long the handler took.
  std::uint64_t end(const Ticks& ticks) {
    in_handler_ = false;
    if (is_timed_) ended_ = ticks.now();
    if (counts_) {
      const std::uint64_t untimed = is_timed_ ? 0 : begun_by_reading_ ? 1 : last_handler.untimed + 1;
      last_handler = {std::max(begun_, ended_), untimed};
    }
    return is_timed_ ? ended_ - begun_ : std::min(last_, quick_);
  }
  // Something else went on since the last handler, on this thread or with this actor.
  void doubt() {
    doubts_ = true;
    last_handler.untimed = kUntimedMost;
  }
  // Of a message that the actor sends, in a handler or not.
  Sent now(const Ticks& ticks) const {
    return in_handler_ && is_quick_ ? Sent{.at = begun_, .guessed_on = &last_handler} : Sent{.at = ticks.now()};
  }
  bool is_timed() const { return is_timed_; }
  // Of the kind of the handler that began last.
  bool is_of_quick_kind() const { return is_quick_; }
  bool is_quick(std::uint64_t ticks) const { return ticks < quick_; }

 private:
  // Of any actor, on this thread. By the counter only: clocks of deterministic worlds are not each other's.
  struct LastHandler {
    std::uint64_t ended;
    std::uint64_t untimed;  // handlers since the clock was read; kUntimedMost: it is not known what was since
  };
  static inline constinit thread_local LastHandler last_handler{0, kUntimedMost};

  std::uint64_t begun_ = 0, ended_ = 0, quick_ = 0, last_ = 0;
  bool counts_ = false, is_quick_ = false, is_timed_ = true, begun_by_reading_ = true, in_handler_ = false, doubts_ = true;
};

}  // namespace troupe::trace
