// What a rank says of itself to whoever looks inside: its snapshot, and what belongs to the process as a whole. json.h
// carries it.
// Threads: plain values. Units: in the names; a *_ns is a time that has passed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/snapshot.h"

namespace troupe::trace {

inline constexpr int kSchema = 1;  // SCHEMA.md

// A collective that this rank has entered and that is not done here.
struct CollectiveRow {
  std::string group;           // as the actor in front of it is called, the same on all members
  std::int64_t sequence = -1;  // tells it from the others of its group, the same on all members
  std::string what;
  std::int64_t since_ns = 0;          // how long ago this rank entered it
  std::vector<int> entered, missing;  // ranks, as far as is seen from here
  bool operator==(const CollectiveRow&) const = default;
};

struct StreamRow {
  std::string name;
  double busy_ratio = 0;
  std::int64_t queued = 0;  // operations
  bool operator==(const StreamRow&) const = default;
};

struct RankReport {
  int rank = 0;
  std::string host;
  int pid = 0;
  double at_unix_s = 0;
  bool answered = true;
  std::string error;  // why there is no answer; of the rest such a report has rank, host and silent_s only
  Snapshot snapshot;
  std::vector<CollectiveRow> collectives;
  std::vector<StreamRow> streams;
  double silent_s = 0;  // since it was last heard of
  bool operator==(const RankReport&) const = default;
};

}  // namespace troupe::trace
