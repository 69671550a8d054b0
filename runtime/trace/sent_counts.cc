#include "runtime/trace/sent_counts.h"

#include <algorithm>
#include <bit>

namespace troupe::trace {

// A thread's, as long as it lives; then the next thread's.
class OwnPlace {
 public:
  OwnPlace() {
    std::uint32_t free = free_.load(std::memory_order_relaxed);
    while (free != 0 && !free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) {
    }
    SentCounts::own_place = free != 0 ? std::countr_zero(free) : SentCounts::kOwn;
  }
  ~OwnPlace() {
    if (SentCounts::own_place == SentCounts::kOwn) return;
    free_.fetch_or(1u << SentCounts::own_place, std::memory_order_release);
    SentCounts::own_place = SentCounts::kOwn;
  }
  OwnPlace(const OwnPlace&) = delete;

 private:
  static inline constinit std::atomic<std::uint32_t> free_{(1u << SentCounts::kOwn) - 1};
};

void SentCounts::add_elsewhere(std::uint64_t stamp) {
  if (own_place < 0) {
    const thread_local OwnPlace place;
    return add(stamp);
  }
  Place& shared = places_[kOwn];
  shared.write(shared.count.fetch_add(1, std::memory_order_release), stamp);
}

struct SentCounts::Known {
  std::uint64_t stamp = 0, age = kOlderThanAll;
  std::uint64_t behind = 0;  // messages of its place from this one on
  static constexpr std::uint64_t kOlderThanAll = ~std::uint64_t{0};
};

void SentCounts::Place::mark(std::uint64_t number, std::uint64_t stamp) {
  std::uint64_t at = number / kStamps;
  for (auto& level : marks) {
    level[at % kMarks].store(stamp, std::memory_order_relaxed);
    if (at % 4 != 0) break;
    at /= 4;
  }
}

std::vector<SentCounts::Known> SentCounts::Place::known(std::uint64_t most, std::uint64_t now) const {
  const std::uint64_t all = count.load(std::memory_order_acquire);
  std::vector<Known> known;
  if (all == 0) return known;
  std::uint64_t oldest = 0;  // what was sent before another is as old, if its sender guessed otherwise
  const auto add = [&](std::uint64_t stamp, std::uint64_t behind) {
    if (stamp == 0) return;  // counted, its stamp still on the way
    const std::uint64_t age = now - stamp;
    oldest = std::max(oldest, age >> 63 != 0 ? 0 : age);
    known.push_back({.stamp = stamp, .age = oldest, .behind = behind});
  };
  std::uint64_t reached = std::min({all, kStamps, most});
  for (std::uint64_t behind = 1; behind <= reached; ++behind) add(stamps[(all - behind) % kStamps].load(std::memory_order_relaxed), behind);
  std::uint64_t apart = kStamps;
  for (const auto& level : marks) {
    const std::uint64_t newest = (all - 1) / apart;
    // the oldest of a full level may be overwritten meanwhile
    for (std::uint64_t i = 0; i < kMarks - 1 && i <= newest; ++i) {
      const std::uint64_t behind = all - (newest - i) * apart;
      if (behind <= std::max(reached, kStamps)) continue;
      if (behind > most) break;
      add(level[(newest - i) % kMarks].load(std::memory_order_relaxed), behind);
      reached = behind;
    }
    apart *= 4;
  }
  known.push_back({.behind = (reached == all ? all : most + 1) + 1});
  return known;
}

SentCounts::Newest SentCounts::newest(std::uint64_t most, std::uint64_t now) const {
  Newest result;
  std::array<std::vector<Known>, kOwn + 1> known;
  std::array<std::size_t, kOwn + 1> next{};
  for (std::size_t i = 0; i < places_.size(); ++i) known[i] = places_[i].known(most, now);
  while (true) {
    std::size_t youngest = 0;
    std::uint64_t age = Known::kOlderThanAll;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i].empty() || known[i][next[i]].age >= age) continue;
      youngest = i;
      age = known[i][next[i]].age;
    }
    if (age == Known::kOlderThanAll) break;
    const Known& one = known[youngest][next[youngest]++];
    std::uint64_t not_older = one.behind;  // with the others before their next one that is known
    for (std::size_t i = 0; i < known.size(); ++i) not_older += i == youngest || known[i].empty() ? 0 : known[i][next[i]].behind - 1;
    if (not_older > most) break;
    result.oldest = one.stamp;
    if (one.behind <= kStamps && result.stamps.size() < kStamps) result.stamps.push_back(one.stamp);
  }
  std::ranges::reverse(result.stamps);
  return result;
}

}  // namespace troupe::trace
