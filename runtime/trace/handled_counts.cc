#include "runtime/trace/handled_counts.h"

#include <algorithm>
#include <optional>
#include <thread>

namespace troupe::trace {

int HandledCounts::add_type(std::uint32_t type) {
  const int slot = types_.load(std::memory_order_relaxed);
  if (slot == kTypes) return -1;
  kind(slot).type.store(type, std::memory_order_relaxed);
  types_.store(slot + 1, std::memory_order_release);
  return slot;
}

HandledCounts::Habit HandledCounts::habit_with(const Kind& kind, std::uint64_t spent) {
  const std::uint64_t since = kind.since_timed();
  return {.handled = kind.handled.load(std::memory_order_relaxed) + since + 1,
          .ticks = kind.ticks.load(std::memory_order_relaxed) + since * kind.last_ticks.load(std::memory_order_relaxed) + spent};
}

void HandledCounts::add(Kind& kind, std::uint64_t waited, std::uint64_t spent, std::uint32_t untimed, const Ticks& ticks) {
  const Habit habit = habit_with(kind, spent);
  const std::uint64_t since = kind.since_timed();
  bump(version_, 1);
  if (since != 0) bump(in_bucket(in_handler_, kind.last_ticks.load(std::memory_order_relaxed), ticks), since);
  bump(in_bucket(in_handler_, spent, ticks), 1);
  settle_waits();
  bump(in_bucket(in_mailbox_, waited, ticks), 1);
  bump(waits_counted_, 1);
  bump(handled_, 1);
  kind.handled.store(habit.handled, std::memory_order_release);
  kind.ticks.store(habit.ticks, std::memory_order_release);
  kind.last_ticks.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(spent, 0xffffffffu)), std::memory_order_release);
  kind.untimed.store(untimed, std::memory_order_release);
  kind.untimed_left.store(untimed, std::memory_order_release);
  bump(version_, 1);
}

void HandledCounts::settle_waits() {
  const std::uint64_t handled = handled_.load(std::memory_order_relaxed), since = handled - waits_counted_.load(std::memory_order_relaxed);
  if (since == 0) return;
  bump(in_mailbox_[static_cast<std::size_t>(usual_wait_.load(std::memory_order_relaxed))], since);
  waits_counted_.store(handled, std::memory_order_release);
}

void HandledCounts::change_usual_wait(std::uint64_t waited, const Ticks& ticks) {
  bump(version_, 1);
  settle_waits();
  const int bucket = ticks.bucket(waited);
  usual_wait_.store(bucket, std::memory_order_release);
  // the bounds themselves are rounded: what is near one is looked up
  const auto near = [](std::uint64_t bound) { return 2 + (bound >> 20); };
  const std::uint64_t above = bucket == 0 ? 0 : ticks.in_ticks(Ticks::bound_ns(bucket - 1)), bound = bucket < Ticks::kBounds ? ticks.in_ticks(Ticks::bound_ns(bucket)) : 0;
  usual_wait_low_ = bucket == 0 ? 0 : above + near(above);
  const std::uint64_t high = bound - std::min(bound, near(bound));
  usual_wait_span_ = std::max(high, usual_wait_low_) - usual_wait_low_;
  bump(version_, 1);
}

void HandledCounts::read(ActorRow& row, const Ticks& ticks, const std::function<std::string(std::uint32_t)>& type_name, Detail detail) const {
  constexpr int kSpins = 200;
  constexpr std::chrono::microseconds kPause{50};
  std::optional<std::chrono::steady_clock::time_point> until;
  const auto has_patience = [&](int tries) {
    if (tries < kSpins) return true;
    std::this_thread::sleep_for(kPause);  // the writer has lost its core
    const auto now = std::chrono::steady_clock::now();
    if (!until) until = now + kPatience;
    return now < *until;
  };
  const auto copy = [](const Times& times, auto& into) {
    std::ranges::transform(times, into.begin(), [](const auto& count) { return count.load(std::memory_order_acquire); });
  };
  std::array<std::uint64_t, Ticks::kBounds + 1> in_mailbox{}, in_handler{};
  std::array<std::uint64_t, kTypes> handled{}, spent{};
  const auto types = static_cast<std::size_t>(types_.load(std::memory_order_acquire));
  std::uint64_t all = 0;
  bool is_last = false;
  for (int tries = 0; !is_last; ++tries) {
    is_last = !has_patience(tries);
    const std::uint64_t version = version_.load(std::memory_order_acquire), waits_counted = waits_counted_.load(std::memory_order_acquire);
    if (version % 2 == 1 && !is_last) continue;
    if (detail == Detail::kAll) {
      copy(in_mailbox_, in_mailbox);
      copy(in_handler_, in_handler);
    }
    all = 0;
    for (std::size_t type = 0; type < types; ++type) {
      const Kind& kind = kinds_[type];
      const std::uint64_t since = kind.since_timed(), usual = kind.last_ticks.load(std::memory_order_acquire);
      handled[type] = kind.handled.load(std::memory_order_acquire) + since;
      spent[type] = kind.ticks.load(std::memory_order_acquire) + since * usual;
      in_handler[static_cast<std::size_t>(ticks.bucket(usual))] += since;
      all += handled[type];
    }
    if (all > waits_counted) in_mailbox[static_cast<std::size_t>(usual_wait_.load(std::memory_order_acquire))] += all - waits_counted;
    if (version == version_.load(std::memory_order_relaxed)) break;
  }
  row.handled = static_cast<std::int64_t>(all);
  row.handling_ns = 0;
  row.messages.clear();
  for (std::size_t type = 0; type < types; ++type) {
    if (handled[type] == 0) continue;
    const std::int64_t handling_ns = ticks.ns(spent[type]);
    row.handling_ns += handling_ns;
    if (detail == Detail::kAll) row.messages.push_back({type_name(kinds_[type].type.load(std::memory_order_relaxed)), static_cast<std::int64_t>(handled[type]), handling_ns});
  }
  if (detail == Detail::kBrief) return;
  row.in_mailbox.bounds_s.clear();
  for (int i = 0; i < Ticks::kBounds; ++i) row.in_mailbox.bounds_s.push_back(static_cast<double>(Ticks::bound_ns(i)) / 1e9);
  row.in_handler.bounds_s = row.in_mailbox.bounds_s;
  row.in_mailbox.counts.assign(in_mailbox.begin(), in_mailbox.end());
  row.in_handler.counts.assign(in_handler.begin(), in_handler.end());
}

}  // namespace troupe::trace
