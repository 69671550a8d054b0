// The probes' time: ticks of the processor's counter, three times as cheap to read as steady_clock.
//
// Where the counter is not known to be constant and common to all cores, and in the deterministic world,
// ticks are the nanoseconds of a Clock. Threads: any. Limits: ticks are kept in 52 bits of a word, so an age
// is right up to 17 days at 3 GHz; ages in a mailbox and in a handler are far below. Invariant:
// Ticks.AgreesWithTheSteadyClock.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/base/clock.h"

namespace troupe::trace {

// True on x86-64 with an invariant counter.
bool has_constant_counter();
// Nanoseconds a tick, measured once against the steady clock.
double counter_ns_per_tick();

class Ticks {
 public:
  static constexpr int kBits = 52;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;

  Ticks() : Ticks(nullptr) {}
  // With a clock, a tick is one of its nanoseconds. The clock outlives the object.
  explicit Ticks(const Clock* clock);

  std::uint64_t now() const { return clock_ ? static_cast<std::uint64_t>(clock_->now_ns()) : counter(); }
  std::int64_t ns(std::uint64_t ticks) const {
    return clock_ ? static_cast<std::int64_t>(ticks)
                  : static_cast<std::int64_t>(static_cast<double>(ticks) * ns_per_tick_);
  }
  std::int64_t now_ns() const { return ns(now()); }
  // A time in ticks.
  std::uint64_t in_ticks(std::int64_t ns) const { return static_cast<std::uint64_t>(static_cast<double>(ns) / ns_per_tick_); }
  // By the processor's counter: the same for all that do.
  bool counts() const { return clock_ == nullptr; }
  // Of a histogram of times: `ticks` is not above bound i = 250 ns * 2^i and above the one before; kBounds: above all. A few whole-number operations.
  static constexpr int kBounds = 28;  // up to 33.6 s
  static constexpr std::int64_t bound_ns(int i) { return std::int64_t{250} << i; }
  int bucket(std::uint64_t ticks) const {
    const std::uint64_t cut = ticks < kCut ? ticks : kCut;
    const auto i = static_cast<int>(std::bit_width((cut - (cut > 0)) * per_tick_ >> 32));
    return i < kBounds ? i : kBounds;
  }
  // How long ago `then` was, when only its lower kBits are kept.
  std::int64_t age_ns(std::uint64_t then) const {
    const std::uint64_t age = (now() - then) & kMask;
    return age > kMask / 2 ? 0 : ns(age);  // written an instant after `now` was read
  }

 private:
  static std::uint64_t counter() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
  }

  static constexpr std::uint64_t kCut = std::uint64_t{1} << 38;  // times per_tick_ is below 2^64; above all bounds up to 8 GHz
  void set_ns_per_tick(double ns);

  const Clock* clock_;
  double ns_per_tick_ = 1.0;
  std::uint64_t per_tick_ = 0;  // a tick in 2^-32 of the first bound
};

}  // namespace troupe::trace
