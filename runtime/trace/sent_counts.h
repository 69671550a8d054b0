// How many messages were sent to one actor, and when those were that wait. A thread counts in a place of its own, so sending costs no locked
// instruction; threads beyond the first kOwn of the process that send anything share one place, by atomic adds.
//
// Threads: `add` by any; readers by any at any time. Limits: of each place the stamps of the kKnown newest messages are known, and before them of one
// in kStamps, in 4 kStamps, in 16 and 64 kStamps, kMarks - 1 of each. A sender without a place of its own that stops between its count and its stamp leaves an
// older stamp in its place until it goes on, and what was sent there before seems as old. Invariants: none is lost or counted twice, whatever threads come and go (SentCountsTest.CountsForThreadsThatComeAndGo);
// what is called the oldest of some is one of them, and of their older half (SentCountsTest.TellsTheAgeOfTheOldestOfMany), also while more are sent
// (SentCountsTest.KnowsThemInOrderWhileMoreAreSent).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace troupe::trace {

class SentCounts {
 public:
  static constexpr int kOwn = 5;
  static constexpr std::uint64_t kStamps = 64, kMarks = 8;
  static constexpr int kLevels = 4;
  static constexpr std::uint64_t kKnown = kStamps - 1;  // the next may be about to take the place of one

  // `stamp`: ticks << 12 | what the reader wants to know of the message; not 0.
  void add(std::uint64_t stamp) {
    if (!add_to_own(stamp)) [[unlikely]] add_elsewhere(stamp);
  }
  // False: nothing was done, this thread has no place of its own yet, or never.
  bool add_to_own(std::uint64_t stamp) {
    const auto own = static_cast<std::size_t>(own_place);
    if (own >= kOwn) [[unlikely]] return false;
    Place& place = places_[own];
    const std::uint64_t number = place.count.load(std::memory_order_relaxed);
    place.write(number, stamp);
    place.count.store(number + 1, std::memory_order_release);
    return true;
  }

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& place : places_) sum += place.count.load(std::memory_order_acquire);
    return sum;
  }
  struct Newest {
    std::vector<std::uint64_t> stamps;  // the oldest first
    std::uint64_t oldest = 0;           // of the oldest that is known; 0: of none
  };
  // Of the `most` newest messages. `now`: ticks << 12.
  Newest newest(std::uint64_t most, std::uint64_t now) const;

 private:
  friend class OwnPlace;
  struct Known;
  struct alignas(64) Place {
    std::atomic<std::uint64_t> count{0};
    std::array<std::atomic<std::uint64_t>, kStamps> stamps{};
    std::array<std::array<std::atomic<std::uint64_t>, kMarks>, kLevels> marks{};

    void write(std::uint64_t number, std::uint64_t stamp) {
      stamps[number % kStamps].store(stamp, std::memory_order_release);  // who sees it sees that the ones before it are counted
      if (number % kStamps == 0) [[unlikely]] mark(number, stamp);
    }
    void mark(std::uint64_t number, std::uint64_t stamp);
    // Of the `most` newest, the newest first; then one that is older than all of them.
    std::vector<Known> known(std::uint64_t most, std::uint64_t now) const;
  };
  void add_elsewhere(std::uint64_t stamp);

  // A thread's, since a place is what a thread has. -1: none yet; kOwn: that of many. Reached without a call.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local int own_place = -1;

  std::array<Place, kOwn + 1> places_{};
};

}  // namespace troupe::trace
