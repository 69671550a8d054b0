// What is seen of one actor from outside, without its help: also when it is stuck in a handler.
//
// Threads: `sent` and `dead_letter` by any thread; the rest of the writers by the actor's own context, one at
// a time; readers by any thread at any time. Writers never lock, never wait: a few relaxed stores; the
// sender's share is one atomic add. Limits: sizeof(Probe) <= 16 KiB (static_assert); kTypes message types an
// actor; the last kEvents events; the age and type of the kStamps oldest messages of the mailbox. Invariants:
// sent = handled + dead + depth (ProbeTest.EveryMessageIsSomewhere); every handled message is in one bucket of each
// histogram (ProbeTest.CountsTimesInMailboxAndHandler); the ring says how many events it lost
// (ProbeTest.CountsTheEventsItLost, CASES A24).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/trace/enabled.h"
#include "runtime/trace/pause.h"
#include "runtime/trace/snapshot.h"
#include "runtime/trace/ticks.h"
#include "runtime/trace/turn_clock.h"

namespace troupe::trace {

// A text that a probe can show, by number; from ProbeRegistry::intern. Kept where states are set, made at
// build time.
struct Name {
  std::uint32_t id = 0;  // 0 is the empty text
};

// How readers turn numbers into texts. Message types are numbered by the process, see
// runtime/actor/message.h.
struct Texts {
  std::function<std::string(Name)> name;
  std::function<std::string(std::uint32_t)> type;
  std::function<std::string(std::uint32_t)> actor = [](std::uint32_t) { return std::string(); };  // by Probe::id
};

class Probe {
 public:
  static constexpr int kTypes = 48;
  static constexpr std::uint64_t kStamps = 64;
  static constexpr std::uint64_t kEvents = 256;
  static constexpr int kDeadKinds = 24;
  static constexpr std::uint64_t kLooksApart = 16;  // of messages of a quick kind: their senders' line is read once in so many
  static constexpr std::uint64_t kNotKnown = TurnClock::kNotKnown;
  using Sent = TurnClock::Sent;
  static constexpr std::uint32_t kMaxType = (1u << 12) - 2;

  Probe(std::string name, Ticks ticks);

  // --- written by senders ---
  // `when`: as now() of the sender gives it; at kNotKnown: now. Gives the time, for begin_handling.
  Sent sent(std::uint32_t type, Sent when = {}) {
    if constexpr (!kProbes) return {};
    const std::uint64_t number = sent_.fetch_add(1, std::memory_order_relaxed);
    if (when.at == kNotKnown) when = {.at = ticks_.now()};
    stamps_[number % kStamps].store(pack(when.at, type + 1), std::memory_order_relaxed);
    return when;
  }
  // What end_handling is told of a message's origin: when it was sent (as sent() gave it), and its sender's id; 0 where that is not known.
  static std::uint64_t origin(std::uint64_t sent_at, std::uint32_t sender) { return sender == 0 || sent_at == kNotKnown ? 0 : pack(sent_at, sender); }
  void dead_letter(std::uint32_t type, DeadReason reason);

  // --- written by the actor ---
  // Gives the place in the per-type counts for the process-wide number `type`; at most kTypes.
  int add_type(std::uint32_t type);
  // Around a handler, whose times are as turn_clock.h says. `slot` is from add_type. `sent_at`: what sent() gave for this message, which carries it: so
  // its time in the mailbox is its own, however deep that is and whatever overtook it. kNotKnown: it is not counted.
  std::uint64_t begin_handling(std::uint32_t type, int slot, const Sent& sent = {}) {
    if constexpr (!kProbes) return 0;
    const auto& counts = types_[static_cast<std::size_t>(slot)];
    const std::uint64_t now = clock_.begin(
        ticks_, sent,
        {.handled = counts.handled.load(std::memory_order_relaxed), .ticks = counts.ticks.load(std::memory_order_relaxed), .last = counts.last_ticks});
    if (sent.at != kNotKnown) count(in_mailbox_, now > sent.at ? now - sent.at : 0);  // other cores' counters may be a little ahead
    handling_.store(pack(now, type + 1), std::memory_order_relaxed);
    const std::uint64_t handled = handled_.load(std::memory_order_relaxed);
    if (!clock_.is_of_quick_kind() || handled % kLooksApart == 0) look_at_depth(handled, 1);
    return now;
  }
  void end_handling(std::uint32_t type, int slot, std::uint64_t begun, std::uint64_t origin = 0) {
    if constexpr (!kProbes) return;
    const std::uint64_t spent = clock_.end(ticks_);
    auto& counts = types_[static_cast<std::size_t>(slot)];
    if (clock_.is_timed()) counts.last_ticks = static_cast<std::uint32_t>(std::min<std::uint64_t>(spent, 0xffffffffu));
    bump(counts.handled, 1);
    bump(counts.ticks, spent);
    bump(handled_, 1);
    count(in_handler_, spent);
    if (!clock_.is_quick(spent)) look_at_depth(handled_.load(std::memory_order_relaxed), 0);
    write_event(EventKind::kHandled, begun, type,
                (behind_ < 0xffff ? behind_ : 0xffff) << 32 | (spent < 0xffffffffu ? spent : 0xffffffffu), origin);
    handling_.store(0, std::memory_order_relaxed);
  }
  // A message that had no handler: neither handled nor waiting any more.
  void end_without_handler(std::uint32_t type) {
    dead_letter(type, DeadReason::kNoHandler);
    handling_.store(0, std::memory_order_relaxed);
  }
  void set_state(State state, Name detail = {}, std::int64_t number = -1, Name from = {});
  void mark(Name what, std::int64_t number = -1);
  // When what it sends is sent, for the receiver's sent().
  Sent now() const {
    if constexpr (!kProbes) return {};
    return clock_.now(ticks_);
  }
  // It did something else than to handle messages since the last one, or nothing.
  void doubt_the_time() { clock_.doubt(); }
  void ended();
  void restarted() { bump(restarts_, 1); }
  // By which messages say who sent them; 0, and those above kMaxId, are not told. Before anybody reads.
  static constexpr std::uint32_t kMaxId = (1u << 12) - 1;
  void set_id(std::uint32_t id) { id_ = id <= kMaxId ? id : 0; }
  void rename(std::string name) { name_ = std::move(name); }  // before anybody reads
  void set_ticks(Ticks ticks) {                               // before anybody writes; the state is as old as that
    ticks_ = ticks;
    clock_.start(ticks_);
    state_since_.store(ticks_.now(), std::memory_order_relaxed);
  }

  // --- told from outside, obeyed by the actor ---
  Pause pause;

  // --- read by anybody ---
  const std::string& name() const { return name_; }
  std::uint32_t id() const { return id_; }
  const Ticks& ticks() const { return ticks_; }
  std::int64_t sent_count() const { return static_cast<std::int64_t>(sent_.load(std::memory_order_acquire)); }
  std::int64_t handled_count() const {
    return static_cast<std::int64_t>(handled_.load(std::memory_order_acquire));
  }
  std::int64_t dead_count() const { return static_cast<std::int64_t>(dead_.load(std::memory_order_acquire)); }
  std::int64_t depth() const;
  std::int64_t depth_max() const { return depth_max_.load(std::memory_order_relaxed); }
  bool has_ended() const {
    return static_cast<State>(state_.load(std::memory_order_acquire) & 0xff) == State::kEnded;
  }
  ActorRow row(const Texts& texts) const;

  struct Events {
    std::vector<EventRow> rows;
    std::uint64_t next = 0;  // give this to the next call
    std::int64_t lost = 0;   // overwritten between `since` and the first row
  };
  // The events from number `since` on that the ring still holds and that ended after `after_ns`, oldest first.
  Events events_since(std::uint64_t since, const Texts& texts, std::int64_t after_ns = INT64_MIN) const;

 private:
  struct TypeCounts {
    std::atomic<std::uint32_t> type{0};
    std::uint32_t last_ticks = 0;  // the actor's own: of the last that was timed
    std::atomic<std::uint64_t> handled{0}, ticks{0};
  };
  using TimeCounts = std::array<std::atomic<std::uint64_t>, Ticks::kBounds + 1>;
  struct DeadCounts {
    std::atomic<std::uint32_t> key{0};  // (type + 1) << 8 | reason, 0 is unused
    std::atomic<std::uint64_t> count{0};
  };
  struct Event {
    std::atomic<std::uint64_t> when{0};  // packed ticks and type (kHandled, kDeadLetter) or state (kState)
    std::atomic<std::uint64_t> what{0};  // kind in the upper 8 bits; then see write_event's callers
    std::atomic<std::uint64_t> origin{0};  // of kHandled: packed ticks and the sender's id; 0 unknown
  };
  static std::uint64_t pack(std::uint64_t ticks, std::uint64_t twelve_bits) {
    return (ticks & Ticks::kMask) << 12 | twelve_bits;
  }
  static std::uint64_t ticks_of(std::uint64_t packed) { return packed >> 12; }
  static std::uint32_t low_of(std::uint64_t packed) { return static_cast<std::uint32_t>(packed & 0xfff); }
  // An add by the only writer: no locked instruction.
  template <class T>
  static void bump(std::atomic<T>& counter, std::type_identity_t<T> by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_release);
  }
  // Takes the senders' line from them. `in_hand`: 1 while a message is, which counts until it is handled.
  void look_at_depth(std::uint64_t handled, std::uint64_t in_hand) {
    const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
    behind_ = sent > handled + in_hand ? sent - handled - in_hand : 0;
    const auto depth = static_cast<std::int64_t>(sent - handled - dead_.load(std::memory_order_relaxed));
    if (depth > depth_max_.load(std::memory_order_relaxed)) [[unlikely]] depth_max_.store(depth, std::memory_order_relaxed);
  }
  void count(TimeCounts& times, std::uint64_t ticks) { bump(times[static_cast<std::size_t>(ticks_.bucket(ticks))], 1); }
  void write_event(EventKind kind, std::uint64_t ticks, std::uint64_t low, std::uint64_t what, std::uint64_t origin = 0) {
    const std::uint64_t at = events_written_.load(std::memory_order_relaxed);
    events_begun_.store(at + 1, std::memory_order_relaxed);
    auto& event = events_[at % kEvents];
    event.when.store(pack(ticks, low), std::memory_order_release);
    event.what.store(static_cast<std::uint64_t>(kind) << 56 | what, std::memory_order_release);
    event.origin.store(origin, std::memory_order_release);
    events_written_.store(at + 1, std::memory_order_release);
  }
  EventRow event_row(std::uint64_t when, std::uint64_t what, std::uint64_t origin, const Texts& texts) const;
  std::int64_t absolute_ns(std::uint64_t packed_ticks) const;

  std::string name_;
  std::uint32_t id_ = 0;
  Ticks ticks_;

  alignas(64) std::atomic<std::uint64_t> sent_{0};  // senders' line
  std::array<std::atomic<std::uint64_t>, kStamps> stamps_{};

  alignas(64) TurnClock clock_;  // the actor's lines
  std::uint64_t behind_ = 0;     // messages behind the one in hand, at the last look
  std::atomic<std::uint64_t> handled_{0};
  std::atomic<std::uint64_t> handling_{0};             // packed start and type + 1; 0 outside handlers
  std::atomic<std::int64_t> depth_max_{0};
  std::atomic<std::uint64_t> state_version_{0};  // odd while the three words below change
  std::atomic<std::uint64_t> state_{0};          // `from` << 40 | detail << 8 | state
  std::atomic<std::int64_t> state_number_{-1};
  std::atomic<std::uint64_t> state_since_{0};
  std::atomic<std::uint64_t> restarts_{0};
  std::atomic<std::uint64_t> events_begun_{0}, events_written_{0};
  std::array<TypeCounts, kTypes> types_{};
  std::atomic<int> type_count_{0};
  TimeCounts in_mailbox_{}, in_handler_{};
  std::array<Event, kEvents> events_{};

  alignas(64) std::atomic<std::uint64_t> dead_{0};
  std::array<DeadCounts, kDeadKinds> dead_counts_{};
};
static_assert(sizeof(Probe) <= 16 * 1024);

}  // namespace troupe::trace
