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

SentCounts::Newest SentCounts::newest(std::uint64_t most, std::uint64_t now) const {
  struct Known {
    std::uint64_t stamp = 0, age = 0;
    std::size_t place = 0;
    std::uint64_t behind = 0;  // messages of its place from this one on
    bool is_mark = false;
  };
  std::vector<Known> known;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const std::uint64_t count = place.count.load(std::memory_order_acquire), exact = std::min({count, kStamps, most});
    std::uint64_t oldest = 0;  // what was sent before another is as old, if its sender guessed otherwise
    const auto add = [&](std::uint64_t stamp, std::uint64_t behind, bool is_mark) {
      if (stamp == 0) return;  // counted, its stamp still on the way
      const std::uint64_t age = now - stamp;
      oldest = std::max(oldest, age >> 63 != 0 ? 0 : age);
      known.push_back({.stamp = stamp, .age = oldest, .place = i, .behind = behind, .is_mark = is_mark});
    };
    for (std::uint64_t behind = 1; behind <= exact; ++behind) add(place.stamps[(count - behind) % kStamps].load(std::memory_order_relaxed), behind, false);
    if (count <= kStamps || most <= kStamps) continue;
    const std::uint64_t last = (count - kStamps - 1) / kStamps;
    for (std::uint64_t mark = last + 1; mark > 0 && last + 1 - mark < kMarks - 2 && count - (mark - 1) * kStamps <= most; --mark) {
      add(place.marks[(mark - 1) % kMarks].load(std::memory_order_relaxed), count - (mark - 1) * kStamps, true);
    }
  }
  std::ranges::stable_sort(known, {}, &Known::age);
  Newest result;
  std::array<std::uint64_t, kOwn + 1> behind{};
  std::uint64_t all = 0;
  for (const Known& each : known) {
    all += each.behind - behind[each.place];
    behind[each.place] = each.behind;
    if (all > most) break;
    result.oldest = each.stamp;
    if (!each.is_mark && result.stamps.size() < kStamps) result.stamps.push_back(each.stamp);
  }
  std::ranges::reverse(result.stamps);
  return result;
}

}  // namespace troupe::trace
