#include "runtime/trace/rates.h"

#include <algorithm>
#include <utility>

#include "runtime/base/clock.h"

namespace troupe::trace {

Rates::Rates(std::int64_t start_ns) : before_{.at_ns = start_ns}, last_{.at_ns = start_ns} {}

void Rates::set(Snapshot& snapshot, const std::vector<std::uint64_t>& ids) {
  std::lock_guard lock(mutex_);
  const bool is_due = snapshot.at_ns - last_.at_ns >= kWindowNs;
  const Look& base = is_due ? last_ : before_;
  // Before the first window is over: as over a whole one.
  const double over_s = seconds(std::max(kWindowNs, snapshot.at_ns - base.at_ns));
  for (std::size_t i = 0; i < snapshot.actors.size(); ++i) {
    const auto at = std::ranges::lower_bound(base.ids, ids[i]);
    const bool is_known = at != base.ids.end() && *at == ids[i];
    const std::int64_t before = is_known ? base.depths[static_cast<std::size_t>(at - base.ids.begin())] : 0;
    snapshot.actors[i].growth_per_s = static_cast<double>(snapshot.actors[i].depth - before) / over_s;
  }
  for (std::size_t i = 0; i < snapshot.edges.size(); ++i) {
    const std::int64_t before = i < base.bytes.size() ? base.bytes[i] : 0;
    snapshot.edges[i].bytes_per_s = static_cast<double>(snapshot.edges[i].bytes - before) / over_s;
  }
  if (!is_due) return;
  before_ = std::exchange(last_, {.at_ns = snapshot.at_ns, .ids = ids});
  for (const auto& actor : snapshot.actors) last_.depths.push_back(actor.depth);
  for (const auto& edge : snapshot.edges) last_.bytes.push_back(edge.bytes);
}

}  // namespace troupe::trace
