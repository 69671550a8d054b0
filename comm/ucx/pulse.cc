#include "comm/ucx/pulse.h"

#include <algorithm>

namespace troupe::comm {
namespace {

constexpr std::int64_t kIntervalMostNs = 1'000'000'000, kIntervalLeastNs = 10'000'000;

}  // namespace

Pulse::Pulse(int world, std::int64_t timeout_ns, std::int64_t first_contact_ns)
    : timeout_ns_(timeout_ns),
      first_contact_ns_(std::max(first_contact_ns, timeout_ns)),
      interval_ns_(std::clamp(timeout_ns / 5, kIntervalLeastNs, kIntervalMostNs)),
      watched_(static_cast<std::size_t>(world)) {}

void Pulse::watch(Rank rank, std::int64_t now_ns) {
  Watched& peer = at(rank);
  if (peer.watched || peer.forgotten) return;
  peer.watched = true;
  peer.since_ns = now_ns;
}

void Pulse::heard(Rank rank, std::int64_t now_ns) {
  Watched& peer = at(rank);
  if (peer.forgotten) return;
  peer.watched = peer.heard = true;
  peer.since_ns = now_ns;
}

void Pulse::forget(Rank rank) { at(rank) = {.forgotten = true}; }

std::vector<Rank> Pulse::tick(std::int64_t now_ns) {
  const bool late = now_ns - ticked_ns_ > 2 * interval_ns_;
  ticked_ns_ = now_ns;
  std::vector<Rank> silent;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& peer = watched_[i];
    if (!peer.watched) continue;
    if (late) peer.since_ns = std::max(peer.since_ns, now_ns);
    if (now_ns - peer.since_ns > (peer.heard ? timeout_ns_ : first_contact_ns_))
      silent.push_back(Rank{static_cast<std::int32_t>(i)});
  }
  return silent;
}

}  // namespace troupe::comm
