// Whether an actor is paused: a word that those outside write and the actor obeys between two messages. A paused actor takes no message;
// what is sent to it stays in its mailbox, in order.
//
// It is paused once it has heeded that: turns, in which an actor takes messages, are marked, so whoever pauses it sees whether one may still be
// taken. The turn ends at the next message, unless its handler never returns. An actor marks them all the time and is paused seldom, so the
// fence between the two words is who pauses' (runtime/base/fence.h).
//
// The actor parks when it is scheduled and may take nothing: it lets go of its thread with its mailbox as it is, and only who makes it go
// on schedules it again. So a paused actor costs nothing, and nothing is moved.
//
// Threads: pause, go_on, step, end and the readers by any; the rest by the actor's own context. Nobody locks or waits.
// Limits: kStepsMost steps that are not taken yet. Invariants: of all that let a parked actor go on, one is told to schedule it
// (PauseTest.OneOfManyWakesTheParked); after end() nothing is held back (PauseTest.NothingIsHeldAfterTheEnd); what is seen as paused takes no
// message (PauseTest.WhoIsSeenAsPausedTakesNothing).
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/fence.h"
#include "runtime/trace/ticks.h"

namespace troupe::trace {

// On a line of its own: the actor writes it every turn, and its senders read what is beside it.
class alignas(64) Pause {
 public:
  static constexpr int kStepsMost = 250;

  // What was before a change, and what it asks for.
  struct Change {
    bool was_paused = false, had_ended = false;
    bool same = false;     // nothing changed
    bool wakes = false;    // who made the change schedules the actor
  };
  Change pause(std::uint64_t now) {
    const Change made = change([now](std::uint64_t word) { return word & (kPaused | kEnded) ? word : at(now) | kPaused; });
    settle();
    return made;
  }
  Change go_on() {
    return change([](std::uint64_t word) { return word & kEnded; });
  }
  // One message more, now or when it comes.
  Change step() {
    return change([](std::uint64_t word) { return word & kPaused && steps(word) < kStepsMost ? (word & ~kParked) + kStep : word; });
  }
  // The actor is to end: it goes on, and is never paused again.
  Change end() {
    return change([](std::uint64_t) { return kEnded; });
  }

  // --- the actor ---
  // Around its turns. After begin_turn(), and after a park() that has failed, it asks holds_back() before it takes anything.
  void begin_turn() {
    in_turn_.store(true, std::memory_order_relaxed);
    light_fence();
  }
  void end_turn() { in_turn_.store(false, std::memory_order_release); }
  bool holds_back() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return word & kPaused && steps(word) == 0;
  }
  // It takes a message.
  void take() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (word & kPaused && steps(word) > 0 && !word_.compare_exchange_weak(word, word - kStep, std::memory_order_acq_rel)) {
    }
  }
  // True: it is held back, its turn has ended, and from now on another thread may run it. `since`: 0, or the time from which it is to be seen as paused.
  bool park(std::uint64_t since) {
    end_turn();
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (word & kPaused && steps(word) == 0) {
      const std::uint64_t parked = (since != 0 ? at(since) | (word & kLow) : word) | kParked;
      if (word_.compare_exchange_weak(word, parked, std::memory_order_acq_rel)) return true;
    }
    begin_turn();
    return false;
  }

  // --- readers ---
  struct Seen {
    bool paused = false;
    bool is_to_pause = false;  // it has been told, and has not heeded it yet
    int steps = 0;             // open ones
    std::uint64_t since = 0;   // ticks
  };
  Seen seen() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const bool told = word & kPaused, in_turn = (word & kSettled) == 0 || in_turn_.load(std::memory_order_acquire);
    return {.paused = told && !in_turn, .is_to_pause = told && in_turn && steps(word) == 0, .steps = steps(word), .since = word >> kLowBits};
  }

 private:
  static constexpr int kLowBits = 64 - Ticks::kBits;
  static constexpr std::uint64_t kLow = (1u << kLowBits) - 1;
  static constexpr std::uint64_t kPaused = 1, kParked = 2, kEnded = 4, kSettled = 8, kStep = 16;
  static_assert(kStepsMost * kStep < kLow);
  static std::uint64_t at(std::uint64_t ticks) { return (ticks & Ticks::kMask) << kLowBits; }
  static int steps(std::uint64_t word) { return static_cast<int>((word & kLow) / kStep); }

  template <class F>
  Change change(const F& changed) {
    std::uint64_t word = word_.load(std::memory_order_relaxed), next = 0;
    do {
      next = changed(word);
    } while (!word_.compare_exchange_weak(word, next, std::memory_order_acq_rel));
    return {.was_paused = (word & kPaused) != 0, .had_ended = (word & kEnded) != 0, .same = next == word, .wakes = (word & kParked) > (next & kParked)};
  }

  // From now on an actor that is in a turn is seen to be, or sees that it is paused.
  void settle() {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while ((word & kPaused) != 0 && (word & kSettled) == 0) {
      heavy_fence();
      word_.compare_exchange_weak(word, word | kSettled, std::memory_order_acq_rel);
    }
  }

  std::atomic<std::uint64_t> word_{0};
  std::atomic<bool> in_turn_{false};
};

}  // namespace troupe::trace
