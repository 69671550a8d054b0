// What an inspector gets: plain values, copied out of the probes without the help of those who write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::trace {

// What an actor does, as far as it can be seen from outside. kReady and kHandling are found by the reader,
// kPaused is said from outside; the others are said by the actor.
enum class State : std::uint8_t {
  kIdle,              // nothing to do
  kReady,             // messages wait for it, or its work for a turn on `from`
  kHandling,          // inside the handler of `detail`
  kRunning,           // operation `detail` runs on a device
  kWaitingForCredit,  // of edge `detail`
  kWaitingForInput,   // from `detail`; with `from`, `detail` from that actor
  kWaitingForEvent,   // device event `detail`
  kWaitingForCollective,  // `detail`, of the group that `from` is in front of, or itself
  kPaused,                // takes no message until somebody lets it go on
  kEnded,
};
const char* name(State state);  // for people
const char* key(State state);   // for programs: SCHEMA.md

enum class DeadReason : std::uint8_t { kAfterEnd, kLeftInMailbox, kNoHandler, kTimerDropped };
const char* name(DeadReason reason);
const char* key(DeadReason reason);

enum class EventKind : std::uint8_t { kHandled, kState, kMark, kDeadLetter, kEnded };
const char* key(EventKind kind);

struct EventRow {
  EventKind kind = EventKind::kHandled;
  std::string text;              // message type, state and its detail, mark
  std::int64_t at_ns = 0;        // on the probe's time
  std::int64_t duration_ns = 0;  // of a handler
  std::int64_t number = -1;      // of a state or mark; of kHandled the mailbox depth left behind it
  std::int64_t others = 0;       // of kHandled: so many more of this type were handled since its last event, not timed since they are quick
  std::string from;              // of kHandled: the actor of this system that sent the message, empty where it is not known
  std::int64_t sent_ns = 0;      // ... and when; on the probe's time
  bool operator==(const EventRow&) const = default;
};

struct MessageCount {
  std::string type;
  std::int64_t handled = 0;
  std::int64_t handling_ns = 0;
  bool operator==(const MessageCount&) const = default;
};

struct DeadLetterCount {
  std::string type;
  DeadReason reason = DeadReason::kAfterEnd;
  std::int64_t count = 0;
  bool operator==(const DeadLetterCount&) const = default;
};

struct WaitingMessage {
  std::string type;
  std::int64_t age_ns = 0;
  bool operator==(const WaitingMessage&) const = default;
};

// How often a time was so long: counts[i] those up to bounds_s[i] that are above the bound before; the last count is of those above all bounds.
struct HistogramRow {
  std::vector<double> bounds_s;
  std::vector<std::int64_t> counts;
  bool operator==(const HistogramRow&) const = default;
};

// kBrief: what is long is left out, of a row of an actor its messages, mailbox, dead letters by type, and times.
enum class Detail : std::uint8_t { kAll, kBrief };
// Which lists of a snapshot are filled.
enum class Lists : std::uint8_t { kAll, kActors, kEdges, kTombstones, kNone };

struct ActorRow {
  std::string name;
  State state = State::kIdle;
  std::string detail;
  std::string from;  // another actor that belongs to the state, NAME@RANK if it is in another rank, @RANK that one as a whole
  std::int64_t number = -1;
  std::int64_t since_ns = 0;  // how long it is in that state
  std::int64_t sent = 0;      // messages sent to it, ever: handled + dead + depth
  std::int64_t handled = 0;
  std::int64_t dead = 0;
  std::int64_t depth = 0;
  std::int64_t depth_max = 0;
  double growth_per_s = 0;  // of depth, see rates.h
  std::int64_t oldest_ns = 0;  // age of the oldest message in the mailbox; of more than SentCounts::kKnown, of one of the older half
  std::int64_t handling_ns = 0;  // time in handlers, ever
  std::int64_t restarts = 0;
  std::int64_t events_lost = 0;  // overwritten in the ring before anybody read them
  std::vector<MessageCount> messages;
  std::vector<DeadLetterCount> dead_letters;
  std::vector<WaitingMessage> waiting;  // the mailbox, oldest first, at most SentCounts::kKnown
  HistogramRow in_mailbox, in_handler;  // of the messages handled
  bool operator==(const ActorRow&) const = default;
};

// What an actor does, in words: "waiting for loss 12 from replica@1".
std::string doing(State state, const std::string& detail, const std::string& from, std::int64_t number);
inline std::string doing(const ActorRow& row) { return doing(row.state, row.detail, row.from, row.number); }

struct EdgeRow {
  std::string name, from, to;        // the ends as actor.port
  int from_rank = -1, to_rank = -1;  // where that end is in another process
  std::int64_t capacity = 0;
  std::int64_t free = 0;       // credits the sender can take now
  std::int64_t in_flight = 0;  // taken and not yet back with the sender
  std::int64_t taken = 0, sent = 0, delivered = 0, returned = 0, reclaimed = 0;
  std::int64_t bytes = 0;      // sent, ever
  double bytes_per_s = 0;      // see rates.h
  std::int64_t queued() const { return sent - delivered; }
  std::int64_t held() const { return delivered - returned; }
  bool operator==(const EdgeRow&) const = default;
};

// What is left of an actor that ended.
struct Tombstone {
  std::string name;
  std::string cause;               // "OK" or a Status
  std::vector<std::string> chain;  // causes of the cause, the first failure first
  std::int64_t at_ns = 0;
  std::int64_t sent = 0, handled = 0, dead = 0;  // still counting what arrives after the end
  std::vector<DeadLetterCount> dead_letters;
  bool operator==(const Tombstone&) const = default;
};

struct Snapshot {
  std::int64_t at_ns = 0;
  std::vector<ActorRow> actors;
  std::vector<EdgeRow> edges;
  std::vector<Tombstone> tombstones;
  std::int64_t tombstones_dropped = 0;
  bool operator==(const Snapshot&) const = default;
};

}  // namespace troupe::trace
