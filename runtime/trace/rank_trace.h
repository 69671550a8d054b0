// What the rings of a rank hold of the last seconds: what its actors handled, what its streams ran. chrome_trace.h makes a picture of it.
//
// Rings are bounded: who records for long asks often and puts the answers together with extend(), which knows from the numbers of events
// what was overwritten between two looks, and counts it.
// Threads: plain values; rank_trace by any. Units: in the names; times are the probes', which start anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/registry.h"

namespace troupe::trace {

// Marks of the two actors that stand for the ends of an edge between ranks; their number is the message's on that edge. So a message is
// found again in the other rank.
inline constexpr const char* kFrameOut = "frame out";
inline constexpr const char* kFrameIn = "frame in";

struct TracedEvent {
  std::string kind, text;  // kind as in SCHEMA.md
  std::int64_t at_ns = 0, duration_ns = 0;
  std::int64_t number = -1;
  std::int64_t others = 0;
  std::string from;
  std::int64_t sent_ns = 0;
  bool operator==(const TracedEvent&) const = default;
};

struct TracedActor {
  std::string name;
  std::int64_t id = 0;    // tells it from others of that name, before and after it
  std::int64_t next = 0;  // number after that of the last event
  std::int64_t lost = 0;
  std::vector<TracedEvent> events;
  bool operator==(const TracedActor&) const = default;
};

struct TracedStream {
  std::string name, kind;
  std::int64_t next = 0, lost = 0;
  std::vector<OperationRow> operations;
  std::vector<OperationRow> running;  // one or none; its end is the time of the look
  bool operator==(const TracedStream&) const = default;
};

struct TracedCounter {
  std::string name;
  std::int64_t at_ns = 0, value = 0;
  bool operator==(const TracedCounter&) const = default;
};

struct RankTrace {
  int rank = 0;
  std::string host;
  double at_unix_s = 0;             // the clock of the host and ...
  std::int64_t probe_ns = 0;        // ... the probes' at the same moment ...
  std::int64_t clock_error_ns = 0;  // ... to so much
  std::vector<TracedStream> streams;
  std::vector<TracedActor> actors;
  std::vector<TracedCounter> counters;  // free credits of edges
  bool operator==(const RankTrace&) const = default;
};

// What ended after `after_ns` of the probes' time. Of an actor or stream whose ring does not reach back that far, `lost` says how many
// were overwritten, ever. Without rank and host.
RankTrace rank_trace(const ProbeRegistry& probes, std::int64_t after_ns);

// The host's clock and the probes' at one moment, as near as a few tries get.
struct BothClocks {
  double unix_s = 0;
  std::int64_t probe_ns = 0, error_ns = 0;
};
BothClocks both_clocks(const Ticks& ticks);

// Adds a later look to those before: `lost` then counts what no look has seen, from the first one on.
void extend(RankTrace& all, RankTrace more);

}  // namespace troupe::trace
