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
    level[at % kMarks].store(stamp, std::memory_order_release);
    if (at % 4 != 0) break;
    at /= 4;
  }
}

std::vector<SentCounts::Known> SentCounts::Place::known(std::uint64_t most, std::uint64_t now) const {
  const std::uint64_t all = count.load(std::memory_order_acquire);
  std::vector<Known> known;
  if (all == 0) return known;
  // What is overwritten while it is read is left out: the one that may be written now took the place of the one `kept` before it.
  const auto add = [&](const auto& ring, std::uint64_t place, std::uint64_t apart) {
    const std::uint64_t stamp = ring[place % ring.size()].load(std::memory_order_acquire);
    const bool is_kept = place + ring.size() > count.load(std::memory_order_relaxed) / apart;
    if (stamp != 0 && is_kept) known.push_back({.stamp = stamp, .behind = all - place * apart});
    return is_kept;
  };
  std::uint64_t reached = 0;
  for (const std::uint64_t last = std::min({all, kKnown, most}); reached < last && add(stamps, all - reached - 1, 1);) ++reached;
  std::uint64_t apart = kStamps;
  for (const auto& level : marks) {
    const std::uint64_t newest = (all - 1) / apart;
    for (std::uint64_t i = 0; i < kMarks && i <= newest; ++i) {
      const std::uint64_t behind = all - (newest - i) * apart;
      if (behind <= reached) continue;
      if (behind > most || !add(level, newest - i, apart)) break;
      reached = behind;
    }
    apart *= 4;
  }
  std::uint64_t oldest = 0;  // what was sent before another is as old, if its sender guessed otherwise
  for (Known& one : known) {
    const std::uint64_t age = now - one.stamp;
    oldest = std::max(oldest, age >> 63 != 0 ? 0 : age);
    one.age = oldest;
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
    if (one.behind <= kKnown && result.stamps.size() < kKnown) result.stamps.push_back(one.stamp);
  }
  std::ranges::reverse(result.stamps);
  return result;
}

}  // namespace troupe::trace
