#include "actors/inspect/silences.h"

#include <algorithm>

namespace troupe::actors {

// Nobody has asked for longer than kForgotten_ns: whether it was silent meanwhile is not known.
Silences::Known& Silences::known_at(int rank, std::int64_t now_ns) {
  Known& known = silent_.try_emplace(rank, Known{.since_ns = now_ns, .last_ns = now_ns}).first->second;
  if (known.cause.ok() && now_ns - known.last_ns > kForgotten_ns) known.since_ns = now_ns;
  known.last_ns = std::max(known.last_ns, now_ns);
  return known;
}

void Silences::lost(int rank, const Status& cause, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Known& known = known_at(rank, now_ns);
  if (known.cause.ok()) known.cause = cause;
}

// Of one that is lost an answer may still have been on its way.
void Silences::answered(int rank) {
  const std::lock_guard lock(mutex_);
  const auto at = silent_.find(rank);
  if (at != silent_.end() && at->second.cause.ok()) silent_.erase(at);
}

Silences::Silence Silences::left_open(int rank, const Status& why, std::int64_t asked_ns) {
  const std::lock_guard lock(mutex_);
  Known& known = known_at(rank, asked_ns);
  known.since_ns = std::min(known.since_ns, asked_ns);  // it may have been lost between the question and now
  return {.why = known.cause.ok() ? why : known.cause, .since_ns = known.since_ns};
}

}  // namespace troupe::actors
