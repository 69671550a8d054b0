// Puts the frames of one stream back in the order in which they were sent: early ones wait, used numbers are
// refused.
//
// Threads: one. Limits: at most kEarlyMost frames wait. UCX lets a frame pass only those that went in several
// pieces, so a handful is what happens; more means that a frame is lost. Invariants: what is delivered has
// the numbers 0, 1, 2, ... (UcxSequencer.DeliversInOrder).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace troupe::comm {

template <class T>
class Sequencer {
 public:
  static constexpr std::size_t kEarlyMost = 4096;
  enum class Verdict { kTaken, kUsed, kTooMany };

  // Calls deliver(T) for this item and for those that waited for it. Not taken: `item` is untouched.
  template <class Deliver>
  Verdict offer(std::uint64_t sequence, T&& item, Deliver deliver) {
    if (sequence < next_ || early_.contains(sequence)) return Verdict::kUsed;
    if (sequence > next_) {
      if (early_.size() >= kEarlyMost) return Verdict::kTooMany;
      early_.emplace(sequence, std::move(item));
      return Verdict::kTaken;
    }
    ++next_;
    deliver(std::move(item));
    while (!early_.empty() && early_.begin()->first == next_) {
      ++next_;
      deliver(std::move(early_.extract(early_.begin()).mapped()));
    }
    return Verdict::kTaken;
  }

 private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, T> early_;
};

}  // namespace troupe::comm
