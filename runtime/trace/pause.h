// Whether an actor is paused: a word that those outside write and the actor obeys between two messages. A paused actor takes no message;
// what is sent to it stays in its mailbox, in order.
//
// The actor parks when it is scheduled and may take nothing: it lets go of its thread with its mailbox as it is, and only who makes it go
// on schedules it again. So a paused actor costs nothing, and nothing is moved.
//
// Threads: pause, go_on, step, end and the readers by any; the rest by the actor's own context. Nobody locks or waits.
// Limits: kStepsMost steps that are not taken yet. Invariants: of all that let a parked actor go on, one is told to schedule it
// (PauseTest.OneOfManyWakesTheParked); after end() nothing is held back (PauseTest.NothingIsHeldAfterTheEnd).
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/trace/ticks.h"

namespace troupe::trace {

class Pause {
 public:
  static constexpr int kStepsMost = 500;

  // What was before a change, and what it asks for.
  struct Change {
    bool was_paused = false, had_ended = false;
    bool same = false;     // nothing changed
    bool wakes = false;    // who made the change schedules the actor
  };
  Change pause(std::uint64_t now) {
    return change([now](std::uint64_t word) { return word & (kPaused | kEnded) ? word : at(now) | kPaused; });
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
  // True: it is held back, and from now on another thread may run it. `since`: 0, or the time from which it is to be seen as paused.
  bool park(std::uint64_t since) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (word & kPaused && steps(word) == 0) {
      const std::uint64_t parked = (since != 0 ? at(since) | (word & kLow) : word) | kParked;
      if (word_.compare_exchange_weak(word, parked, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  // --- readers ---
  struct Seen {
    bool paused = false;
    int steps = 0;             // open ones
    std::uint64_t since = 0;   // ticks
  };
  Seen seen() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return {.paused = (word & kPaused) != 0, .steps = steps(word), .since = word >> kLowBits};
  }

 private:
  static constexpr int kLowBits = 64 - Ticks::kBits;
  static constexpr std::uint64_t kLow = (1u << kLowBits) - 1;
  static constexpr std::uint64_t kPaused = 1, kParked = 2, kEnded = 4, kStep = 8;
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

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace troupe::trace
