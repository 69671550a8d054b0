#include "runtime/trace/rank_trace.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"

namespace troupe::trace {
namespace {

constexpr int kClockTries = 5;
constexpr std::int64_t kCloseEnoughNs = 1000;

double unix_now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// What is new in `more`, whose rows come behind those of `all`.
template <class Row>
void append(std::int64_t& next, std::int64_t& lost, std::vector<Row>& rows, std::int64_t more_next, std::vector<Row> more) {
  const std::int64_t first = more_next - static_cast<std::int64_t>(more.size());
  // A window without rows says nothing of what was before it.
  if (more.empty()) return;
  lost += std::max<std::int64_t>(0, first - next);
  const auto known = std::clamp<std::int64_t>(next - first, 0, static_cast<std::int64_t>(more.size()));
  rows.insert(rows.end(), std::make_move_iterator(more.begin() + known), std::make_move_iterator(more.end()));
  next = std::max(next, more_next);
}

}  // namespace

BothClocks both_clocks(const Ticks& ticks) {
  BothClocks best{.error_ns = INT64_MAX};
  for (int i = 0; i < kClockTries && best.error_ns > kCloseEnoughNs; ++i) {
    const std::int64_t before = ticks.now_ns();
    const double unix_s = unix_now_s();
    const std::int64_t after = ticks.now_ns();
    if (after - before < best.error_ns) best = {.unix_s = unix_s, .probe_ns = before + (after - before) / 2, .error_ns = after - before};
  }
  return best;
}

RankTrace rank_trace(const ProbeRegistry& probes, std::int64_t after_ns) {
  const BothClocks now = both_clocks(probes.ticks());
  RankTrace trace{.at_unix_s = now.unix_s, .probe_ns = now.probe_ns, .clock_error_ns = now.error_ns};
  for (const auto& [probe, kind] : probes.streams()) {
    auto seen = probe->operations_since(0, after_ns);
    auto& stream = trace.streams.emplace_back();
    stream.name = probe->name();
    stream.kind = kind;
    stream.next = static_cast<std::int64_t>(seen.first + seen.rows.size());
    const bool reaches_back = seen.rows.empty() || static_cast<std::int64_t>(seen.first) > seen.lost;
    stream.lost = reaches_back ? 0 : seen.lost;
    stream.operations = std::move(seen.rows);
    if (OperationRow running; probe->running(running)) stream.running.push_back(std::move(running));
  }
  for (const auto& probe : probes.probes()) {
    auto seen = probe->events_since(0, probes.texts(), after_ns);
    if (seen.rows.empty() && probe->has_ended()) continue;
    auto& actor = trace.actors.emplace_back();
    actor.name = probe->name();
    actor.id = probe->id();
    actor.next = static_cast<std::int64_t>(seen.next);
    const bool reaches_back = seen.rows.empty() || actor.next - static_cast<std::int64_t>(seen.rows.size()) > seen.lost;
    actor.lost = reaches_back ? 0 : seen.lost;
    for (auto& row : seen.rows) {
      actor.events.push_back({.kind = key(row.kind), .text = std::move(row.text), .at_ns = row.at_ns, .duration_ns = row.duration_ns,
                              .number = row.number, .others = row.others, .from = std::move(row.from), .sent_ns = row.sent_ns});
    }
  }
  for (const auto& edge : probes.edges()) {
    trace.counters.push_back({.name = absl::StrCat("credits ", edge->name), .at_ns = now.probe_ns, .value = edge->row().free});
  }
  return trace;
}

void extend(RankTrace& all, RankTrace more) {
  if (more.clock_error_ns < all.clock_error_ns) {
    all.at_unix_s = more.at_unix_s;
    all.probe_ns = more.probe_ns;
    all.clock_error_ns = more.clock_error_ns;
  }
  for (auto& stream : more.streams) {
    const auto known = std::ranges::find(all.streams, stream.name, &TracedStream::name);
    if (known == all.streams.end()) {
      all.streams.push_back(std::move(stream));
      continue;
    }
    known->running = std::move(stream.running);
    append(known->next, known->lost, known->operations, stream.next, std::move(stream.operations));
  }
  for (auto& actor : more.actors) {
    const auto known = std::ranges::find_if(all.actors, [&](const TracedActor& one) { return one.id == actor.id && one.name == actor.name; });
    if (known == all.actors.end()) {
      all.actors.push_back(std::move(actor));
    } else {
      append(known->next, known->lost, known->events, actor.next, std::move(actor.events));
    }
  }
  all.counters.insert(all.counters.end(), more.counters.begin(), more.counters.end());
}

}  // namespace troupe::trace
