// What is seen of one actor from outside, without its help: also when it is stuck in a handler.
//
// Threads: `sent` and `dead_letter` by any thread; the rest of the writers by the actor's own context, one at
// a time; readers by any thread at any time. Writers never lock, never wait: a few relaxed stores. Limits:
// sizeof(Probe) <= 16 KiB (static_assert); kTypes message types an actor; the last kEvents events, of handlers that are not timed
// (turn_clock.h) none; of the mailbox what sent_counts.h says. Invariants: sent = handled + dead + depth (ProbeTest.EveryMessageIsSomewhere);
// the ring says how many events it lost (ProbeTest.CountsTheEventsItLost, CASES A24).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/trace/enabled.h"
#include "runtime/trace/handled_counts.h"
#include "runtime/trace/pause.h"
#include "runtime/trace/sent_counts.h"
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
  static constexpr int kTypes = HandledCounts::kTypes;
  static constexpr std::uint64_t kEvents = 256;
  static constexpr int kDeadKinds = 24;
  static constexpr std::uint64_t kNotKnown = TurnClock::kNotKnown;
  using Sent = TurnClock::Sent;
  static constexpr std::uint32_t kMaxType = (1u << 12) - 2;

  Probe(std::string name, Ticks ticks);

  // --- written by senders ---
  // `when`: as now() of the sender gives it, for begin_handling; where it is not known, it becomes now.
  void sent(std::uint32_t type, Sent& when) {
    if constexpr (!kProbes) return;
    if (when.at == kNotKnown || !sent_.add_to_own(pack(when.at, type + 1))) [[unlikely]] sent_first(type, when);
  }
  Sent sent(std::uint32_t type) {
    Sent when;
    sent(type, when);
    return when;
  }
  void dead_letter(std::uint32_t type, DeadReason reason);

  // --- written by the actor ---
  // Gives the place in the per-type counts for the process-wide number `type`; at most kTypes.
  int add_type(std::uint32_t type);
  // It begins to take messages, on this thread.
  void begin_turn() { clock_.begin_turn(); }
  // Around a handler, whose times are as turn_clock.h says. `slot` is from add_type. `sent`: what sent() gave for this message, which carries it: so its
  // time in the mailbox is its own, however deep that is and whatever overtook it; where it is not known, that is none. `sender`: an id, 0: not known.
  void begin_handling(int slot, const Sent& sent = {}) {
    if constexpr (!kProbes) return;
    Kind& kind = handled_.kind(slot);
    if (kind.is_next_timed()) return begin_timed(kind, sent);
    const std::uint64_t begun = clock_.begin_untimed(ticks_, sent);
    if (begun == 0) [[unlikely]] return begin_timed(kind, sent);
    handled_.expect_wait(begun - sent.at, begun, ticks_);  // other cores' counters may be ahead
    in_hand_.store(&kind, std::memory_order_relaxed);
  }
  void end_handling(const Sent& sent = {}, std::uint32_t sender = 0) {
    if constexpr (!kProbes) return;
    Kind* const kind = in_hand_.load(std::memory_order_relaxed);
    if (kind == nullptr) return end_timed(sent, sender);
    handled_.add_untimed(*kind);
    in_hand_.store(nullptr, std::memory_order_relaxed);
  }
  // A message that had no handler: neither handled nor waiting any more.
  void end_without_handler(std::uint32_t type) { dead_letter(type, DeadReason::kNoHandler); }
  // The same as before with the same number is no news: it is that since then, and no event. Without a number it may be another of its kind, and is.
  void set_state(State state, Name detail = {}, std::int64_t number = -1, Name from = {});
  void mark(Name what, std::int64_t number = -1);
  // When what it sends is sent, for the receiver's sent().
  Sent now() const {
    if constexpr (!kProbes) return {};
    return in_hand_.load(std::memory_order_relaxed) != nullptr ? clock_.guess() : Sent{.at = ticks_.now()};
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
  std::int64_t sent_count() const { return static_cast<std::int64_t>(sent_.total()); }
  std::int64_t handled_count() const {
    return static_cast<std::int64_t>(handled_.total());
  }
  std::int64_t dead_count() const { return static_cast<std::int64_t>(dead_.load(std::memory_order_acquire)); }
  std::int64_t depth() const;
  std::int64_t depth_max() const { return depth_max_.load(std::memory_order_relaxed); }
  bool has_ended() const {
    return static_cast<State>(state_.load(std::memory_order_acquire) & 0xff) == State::kEnded;
  }
  ActorRow row(const Texts& texts, Detail detail = Detail::kAll) const;

  struct Events {
    std::vector<EventRow> rows;
    std::uint64_t next = 0;  // give this to the next call
    std::int64_t lost = 0;   // overwritten between `since` and the first row
  };
  // The events from number `since` on that the ring still holds and that ended after `after_ns`, oldest first.
  Events events_since(std::uint64_t since, const Texts& texts, std::int64_t after_ns = INT64_MIN) const;

 private:
  using Kind = HandledCounts::Kind;
  struct DeadCounts {
    std::atomic<std::uint32_t> key{0};  // (type + 1) << 8 | reason, 0 is unused
    std::atomic<std::uint64_t> count{0};
  };
  struct Event {
    std::atomic<std::uint64_t> when{0};  // packed ticks and type (kHandled, kDeadLetter) or state (kState)
    std::atomic<std::uint64_t> what{0};  // kind in the upper 8 bits; then see write_event's callers
    std::atomic<std::uint64_t> origin{0};  // of kHandled: packed ticks and the sender's id; 0 unknown
  };
  void sent_first(std::uint32_t type, Sent& when);
  void begin_timed(Kind& kind, const Sent& sent);
  void end_timed(const Sent& sent, std::uint32_t sender);
  static std::uint64_t pack(std::uint64_t ticks, std::uint64_t twelve_bits) {
    return (ticks & Ticks::kMask) << 12 | twelve_bits;
  }
  static std::uint64_t ticks_of(std::uint64_t packed) { return packed >> 12; }
  static std::uint32_t low_of(std::uint64_t packed) { return static_cast<std::uint32_t>(packed & 0xfff); }
  // Takes the senders' lines from them. `in_hand`: 1 while a message is, which counts until it is handled.
  void look_at_depth(std::uint64_t in_hand);
  void raise_depth_max(std::int64_t depth) const;
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

  SentCounts sent_;  // senders' lines

  alignas(128) TurnClock clock_;         // the actor's lines: what each message needs fills one, the kinds begin with the next
  std::atomic<Kind*> in_hand_{nullptr};  // of the handler that it is in, if that is not timed
  HandledCounts handled_;
  std::atomic<Kind*> timed_in_hand_{nullptr};        // ... if it is
  std::uint64_t behind_ = 0;                         // messages behind the one in hand, at the last look
  mutable std::atomic<std::int64_t> depth_max_{0};   // readers raise it, too
  std::atomic<std::uint64_t> state_version_{0};  // odd while the three words below change
  std::atomic<std::uint64_t> state_{0};          // `from` << 40 | detail << 8 | state
  std::atomic<std::int64_t> state_number_{-1};
  std::atomic<std::uint64_t> state_since_{0};
  std::atomic<std::uint64_t> restarts_{0};
  std::atomic<std::uint64_t> events_begun_{0}, events_written_{0};
  std::array<Event, kEvents> events_{};

  alignas(64) std::atomic<std::uint64_t> dead_{0};
  std::array<DeadCounts, kDeadKinds> dead_counts_{};
};
static_assert(sizeof(Probe) <= 16 * 1024);

}  // namespace troupe::trace
