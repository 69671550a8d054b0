#include "runtime/trace/probe.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace troupe::trace {

const char* name(State state) {
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kReady:
      return "ready";
    case State::kHandling:
      return "handling";
    case State::kRunning:
      return "running";
    case State::kWaitingForCredit:
      return "waiting for credit of";
    case State::kWaitingForInput:
      return "waiting for input from";
    case State::kWaitingForEvent:
      return "waiting for event";
    case State::kWaitingForCollective:
      return "waiting for collective";
    case State::kPaused:
      return "paused";
    case State::kEnded:
      return "ended";
  }
  return "?";
}

const char* key(State state) {
  switch (state) {
    case State::kWaitingForCredit:
      return "waiting_for_credit";
    case State::kWaitingForInput:
      return "waiting_for_input";
    case State::kWaitingForEvent:
      return "waiting_for_event";
    case State::kWaitingForCollective:
      return "waiting_for_collective";
    case State::kIdle:
    case State::kReady:
    case State::kHandling:
    case State::kRunning:
    case State::kPaused:
    case State::kEnded:
      break;
  }
  return name(state);  // one word
}

std::string doing(State state, const std::string& detail, const std::string& from, std::int64_t number) {
  const bool names_both = state == State::kWaitingForInput && !from.empty();
  std::string text = names_both ? "waiting for" : name(state);
  if (names_both && detail.empty() && number < 0) text += " input";
  if (!detail.empty()) text += " " + detail;
  if (number >= 0) text += " " + std::to_string(number);
  const char* joined_by = state == State::kWaitingForCollective ? " of " : state == State::kReady ? " for a turn on " : " from ";
  if (!from.empty()) text += joined_by + (from.starts_with('@') ? "rank " + from.substr(1) : from);
  return text;
}

const char* name(DeadReason reason) {
  switch (reason) {
    case DeadReason::kAfterEnd:
      return "sent after the end";
    case DeadReason::kLeftInMailbox:
      return "in the mailbox at the end";
    case DeadReason::kNoHandler:
      return "no handler";
    case DeadReason::kTimerDropped:
      return "timer dropped";
  }
  return "?";
}

const char* key(DeadReason reason) {
  switch (reason) {
    case DeadReason::kAfterEnd:
      return "after_end";
    case DeadReason::kLeftInMailbox:
      return "left_in_mailbox";
    case DeadReason::kNoHandler:
      return "no_handler";
    case DeadReason::kTimerDropped:
      return "timer_dropped";
  }
  return "?";
}

const char* key(EventKind kind) {
  switch (kind) {
    case EventKind::kHandled:
      return "handled";
    case EventKind::kState:
      return "state";
    case EventKind::kMark:
      return "mark";
    case EventKind::kDeadLetter:
      return "dead_letter";
    case EventKind::kEnded:
      return "ended";
  }
  return "?";
}

Probe::Probe(std::string name, Ticks ticks) : name_(std::move(name)) { set_ticks(ticks); }

int Probe::add_type(std::uint32_t type) {
  const int slot = handled_.add_type(type);
  TROUPE_CHECK(slot >= 0) << "actor '" << name_ << "' handles more than " << kTypes << " message types";
  return slot;
}

void Probe::sent_first(std::uint32_t type, Sent& when) {
  if (when.at == kNotKnown) when = {.at = ticks_.now()};
  sent_.add(pack(when.at, type + 1));
}

void Probe::begin_timed(Kind& kind, const Sent& sent) {
  clock_.begin(ticks_, sent);
  timed_in_hand_.store(&kind, std::memory_order_relaxed);
  look_at_depth(1);
}

void Probe::end_timed(const Sent& sent, std::uint32_t sender) {
  Kind& kind = *timed_in_hand_.load(std::memory_order_relaxed);
  const std::uint64_t begun = clock_.begun(), spent = clock_.end(ticks_);
  const auto habit = HandledCounts::habit_with(kind, spent);
  const std::uint64_t others = kind.since_timed();
  const std::uint64_t waited = begun > sent.at ? begun - sent.at : 0;  // other cores' counters may be ahead
  handled_.add(kind, waited, spent, clock_.untimed_after(habit.handled, habit.ticks, spent), ticks_);
  if (!clock_.is_quick(spent)) look_at_depth(0);
  const std::uint64_t numbers = std::min<std::uint64_t>(others, 0xff) << 48 | std::min<std::uint64_t>(behind_, 0xffff) << 32;
  const std::uint64_t origin = sender == 0 || sent.at == kNotKnown ? 0 : pack(sent.at, sender);
  write_event(EventKind::kHandled, begun, kind.type.load(std::memory_order_relaxed), numbers | std::min<std::uint64_t>(spent, 0xffffffffu), origin);
  timed_in_hand_.store(nullptr, std::memory_order_relaxed);
}

void Probe::look_at_depth(std::uint64_t in_hand) {
  const std::uint64_t handled = handled_.total(), sent = sent_.total();
  behind_ = sent > handled + in_hand ? sent - handled - in_hand : 0;
  raise_depth_max(static_cast<std::int64_t>(sent - handled - dead_.load(std::memory_order_relaxed)));
}

void Probe::raise_depth_max(std::int64_t depth) const {
  std::int64_t most = depth_max_.load(std::memory_order_relaxed);
  while (depth > most && !depth_max_.compare_exchange_weak(most, depth, std::memory_order_relaxed)) {
  }
}

void Probe::dead_letter(std::uint32_t type, DeadReason reason) {
  if constexpr (!kProbes) return;
  const std::uint32_t key = (type + 1) << 8 | static_cast<std::uint32_t>(reason);
  for (int i = 0; i < kDeadKinds; ++i) {
    auto& counts = dead_counts_[static_cast<std::size_t>(i)];
    std::uint32_t seen = counts.key.load(std::memory_order_relaxed);
    if (seen == 0) counts.key.compare_exchange_strong(seen, key, std::memory_order_relaxed);
    // the last place takes what finds no place of its own, under its own key
    if (seen == 0 || seen == key || i == kDeadKinds - 1) {
      counts.count.fetch_add(1, std::memory_order_relaxed);
      break;
    }
  }
  dead_.fetch_add(1, std::memory_order_release);
}

void Probe::set_state(State state, Name detail, std::int64_t number, Name from) {
  if constexpr (!kProbes) return;
  const std::uint64_t packed = std::uint64_t{from.id & 0xffffffu} << 40 | std::uint64_t{detail.id} << 8 | static_cast<std::uint64_t>(state);
  const bool is_the_same = number >= 0 && packed == state_.load(std::memory_order_relaxed) && number == state_number_.load(std::memory_order_relaxed);
  if (is_the_same) return;
  const std::uint64_t now = ticks_.now();
  const std::uint64_t version = state_version_.load(std::memory_order_relaxed);
  state_version_.store(version + 1, std::memory_order_relaxed);
  state_.store(packed, std::memory_order_release);
  state_number_.store(number, std::memory_order_release);
  state_since_.store(now, std::memory_order_release);
  state_version_.store(version + 2, std::memory_order_release);
  write_event(
      EventKind::kState, now, static_cast<std::uint64_t>(state),
      std::uint64_t{detail.id & 0xffffffu} << 32 | (static_cast<std::uint64_t>(number) & 0xffffffffu));
}

void Probe::mark(Name what, std::int64_t number) {
  if constexpr (!kProbes) return;
  write_event(EventKind::kMark, ticks_.now(), 0,
              std::uint64_t{what.id & 0xffffffu} << 32 | (static_cast<std::uint64_t>(number) & 0xffffffffu));
}

void Probe::ended() {
  set_state(State::kEnded);
  if constexpr (!kProbes) return;
  write_event(EventKind::kEnded, ticks_.now(), 0, 0);
}

std::int64_t Probe::depth() const {
  // what leaves the mailbox is read first, so that the difference is never negative
  const std::int64_t gone = handled_count() + dead_count();
  return std::max<std::int64_t>(0, sent_count() - gone);
}

std::int64_t Probe::absolute_ns(std::uint64_t packed_ticks) const {
  const std::uint64_t now = ticks_.now();
  return ticks_.ns(now - ((now - packed_ticks) & Ticks::kMask));
}

EventRow Probe::event_row(std::uint64_t when, std::uint64_t what, std::uint64_t origin, const Texts& texts) const {
  EventRow row;
  row.kind = static_cast<EventKind>(what >> 56);
  row.at_ns = absolute_ns(ticks_of(when));
  const auto number = static_cast<std::int32_t>(static_cast<std::uint32_t>(what));
  const Name detail{static_cast<std::uint32_t>(what >> 32 & 0xffffff)};
  switch (row.kind) {
    case EventKind::kHandled:
      row.text = texts.type(low_of(when));
      row.duration_ns = ticks_.ns(what & 0xffffffffu);
      row.number = static_cast<std::int64_t>(what >> 32 & 0xffff);
      row.others = static_cast<std::int64_t>(what >> 48 & 0xff);
      if (origin == 0) break;
      row.from = texts.actor(low_of(origin));
      row.sent_ns = absolute_ns(ticks_of(origin));
      break;
    case EventKind::kState:
      row.text = trace::name(static_cast<State>(low_of(when)));
      if (detail.id != 0) row.text += " " + texts.name(detail);
      row.number = number;
      break;
    case EventKind::kMark:
      row.text = texts.name(detail);
      row.number = number;
      break;
    case EventKind::kDeadLetter:
      row.text = "dead letter";
      break;
    case EventKind::kEnded:
      row.text = "ended";
      break;
  }
  return row;
}

Probe::Events Probe::events_since(std::uint64_t since, const Texts& texts, std::int64_t after_ns) const {
  Events result;
  const std::uint64_t end = events_written_.load(std::memory_order_acquire);
  std::uint64_t begin = std::max(since, end > kEvents ? end - kEvents : 0);
  struct Raw {
    std::uint64_t when, what, origin;
  };
  std::vector<Raw> raw;
  raw.reserve(static_cast<std::size_t>(end > begin ? end - begin : 0));
  for (std::uint64_t i = begin; i < end; ++i) {
    const auto& event = events_[i % kEvents];
    raw.push_back({event.when.load(std::memory_order_acquire), event.what.load(std::memory_order_acquire),
                   event.origin.load(std::memory_order_acquire)});
  }
  // What the writer has begun to overwrite meanwhile may be torn: leave it out.
  const std::uint64_t begun = events_begun_.load(std::memory_order_acquire);
  const std::uint64_t intact = begun > kEvents ? begun - kEvents : 0;
  const auto ended_ns = [this](const Raw& event) {
    const bool has_duration = static_cast<EventKind>(event.what >> 56) == EventKind::kHandled;
    return absolute_ns(ticks_of(event.when)) + (has_duration ? ticks_.ns(event.what & 0xffffffffu) : 0);
  };
  for (std::uint64_t i = begin; i < end; ++i) {
    const Raw& event = raw[i - begin];
    if (i < intact || (result.rows.empty() && after_ns != INT64_MIN && ended_ns(event) <= after_ns)) continue;
    result.rows.push_back(event_row(event.when, event.what, event.origin, texts));
  }
  begin = std::max(begin, std::min(intact, end));
  result.next = std::max(end, since);
  result.lost = begin > since ? static_cast<std::int64_t>(begin - since) : 0;
  return result;
}

ActorRow Probe::row(const Texts& texts, Detail detail) const {
  ActorRow row;
  row.name = name_;
  // What is handled is read before what is sent, so that no depth is negative. Whoever loses its core in between would see a depth that there never was.
  constexpr int kTries = 10;
  constexpr std::int64_t kAtOnce_ns = 10'000;
  bool is_exact = false;
  for (int i = 0; i < kTries && !is_exact; ++i) {
    const std::uint64_t begin = ticks_.now();
    handled_.read(row, ticks_, texts.type, detail);
    row.dead = dead_count();
    row.sent = sent_count();
    is_exact = handled_count() == row.handled;
    if (ticks_.ns(ticks_.now() - begin) < kAtOnce_ns) break;
  }
  row.depth = std::max<std::int64_t>(0, row.sent - row.handled - row.dead);
  if (is_exact) raise_depth_max(row.depth);
  row.depth_max = depth_max();
  row.restarts = static_cast<std::int64_t>(restarts_.load(std::memory_order_relaxed));
  const std::uint64_t written = events_written_.load(std::memory_order_relaxed);
  row.events_lost = written > kEvents ? static_cast<std::int64_t>(written - kEvents) : 0;

  std::uint64_t state = 0, since = 0, version = 0;
  do {
    version = state_version_.load(std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);
    row.number = state_number_.load(std::memory_order_acquire);
    since = state_since_.load(std::memory_order_acquire);
  } while (version % 2 == 1 || version != state_version_.load(std::memory_order_relaxed));
  row.state = static_cast<State>(state & 0xff);
  row.detail = texts.name(Name{static_cast<std::uint32_t>(state >> 8)});
  row.from = texts.name(Name{static_cast<std::uint32_t>(state >> 40)});
  row.since_ns = ticks_.age_ns(since);

  if (row.depth > 0) {
    const auto newest = sent_.newest(static_cast<std::uint64_t>(row.depth), pack(ticks_.now(), 0));
    if (detail == Detail::kAll) {
      for (const std::uint64_t stamp : newest.stamps) row.waiting.push_back({texts.type(low_of(stamp) - 1), ticks_.age_ns(ticks_of(stamp))});
    }
    if (newest.oldest != 0) row.oldest_ns = ticks_.age_ns(ticks_of(newest.oldest));
  }
  const Kind* untimed = in_hand_.load(std::memory_order_acquire);
  const Kind* handling = untimed != nullptr ? untimed : timed_in_hand_.load(std::memory_order_acquire);
  if (row.state != State::kEnded && handling != nullptr) {
    row.state = State::kHandling;
    row.detail = texts.type(handling->type.load(std::memory_order_relaxed));
    row.from.clear();
    row.number = -1;
    row.since_ns = ticks_.age_ns(clock_.begun());
  } else if (const Pause::Seen seen = pause.seen(); row.state != State::kEnded && seen.paused) {
    row.state = State::kPaused;
    row.detail.clear();
    row.from.clear();
    row.number = -1;
    row.since_ns = ticks_.age_ns(seen.since);
  } else if (row.state == State::kIdle && row.depth > 0) {
    row.state = State::kReady;
    row.since_ns = row.oldest_ns;
  }

  for (const auto& counts : dead_counts_) {
    const std::uint32_t key = counts.key.load(std::memory_order_relaxed);
    if (key == 0 || detail == Detail::kBrief) break;
    row.dead_letters.push_back({texts.type((key >> 8) - 1), static_cast<DeadReason>(key & 0xff),
                                static_cast<std::int64_t>(counts.count.load(std::memory_order_relaxed))});
  }
  return row;
}

}  // namespace troupe::trace
