#include "runtime/trace/rates.h"

#include <algorithm>
#include <utility>

#include "runtime/base/clock.h"

namespace troupe::trace {

Rates::Rates(std::int64_t start_ns) {
  for (Looks* looks : {&depths_, &bytes_}) looks->before.at_ns = looks->last.at_ns = start_ns;
}

std::vector<double> Rates::Looks::changes(Look now) {
  const bool is_due = now.at_ns - last.at_ns >= kWindowNs;
  const Look& base = is_due ? last : before;
  // Before the first window is over: as over a whole one.
  const double over_s = seconds(std::max(kWindowNs, now.at_ns - base.at_ns));
  std::vector<double> changes(now.ids.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < now.ids.size(); ++i) {
    while (at < base.ids.size() && base.ids[at] < now.ids[i]) ++at;
    const bool is_known = at < base.ids.size() && base.ids[at] == now.ids[i];
    changes[i] = static_cast<double>(now.counts[i] - (is_known ? base.counts[at] : 0)) / over_s;
  }
  if (is_due) before = std::exchange(last, std::move(now));
  return changes;
}

void Rates::set(std::vector<ActorRow>& actors, const std::vector<std::uint64_t>& ids, std::int64_t at_ns) {
  Look now{.at_ns = at_ns, .ids = ids};
  for (const auto& actor : actors) now.counts.push_back(actor.depth);
  std::lock_guard lock(mutex_);
  const auto changes = depths_.changes(std::move(now));
  for (std::size_t i = 0; i < actors.size(); ++i) actors[i].growth_per_s = changes[i];
}

void Rates::set(std::vector<EdgeRow>& edges, std::int64_t at_ns) {
  Look now{.at_ns = at_ns};
  for (const auto& edge : edges) {
    now.ids.push_back(now.ids.size());
    now.counts.push_back(edge.bytes);
  }
  std::lock_guard lock(mutex_);
  const auto changes = bytes_.changes(std::move(now));
  for (std::size_t i = 0; i < edges.size(); ++i) edges[i].bytes_per_s = changes[i];
}

}  // namespace troupe::trace
