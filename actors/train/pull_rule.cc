#include "actors/train/pull_rule.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace troupe::actors {
namespace {

// A new measurement's share in the pace, in tenths: a few micro-batches settle it, a single hiccup does not.
constexpr std::int64_t kNewTenths = 3;
// What is left, in eighths, of the pace of a replica that took none in a step.
constexpr std::int64_t kTrustEighths = 7;
constexpr std::int64_t kLeastPatienceNs = 1'000'000, kMostPatienceNs = 1'000'000'000;

}  // namespace

PullRule::PullRule(int replicas, int micro_batches) : micro_batches_(micro_batches), replicas_(static_cast<std::size_t>(replicas)) {}

void PullRule::open_step() {
  TROUPE_CHECK(left_ == 0) << "a step was opened while " << left_ << " micro-batches of the one before are left";
  std::int64_t fastest = 0;
  for (const auto& replica : replicas_) {
    if (replica.pace_ns > 0 && (fastest == 0 || replica.pace_ns < fastest)) fastest = replica.pace_ns;
  }
  for (auto& replica : replicas_) {
    if (replica.given == 0 && replica.pace_ns > fastest) {
      replica.pace_ns = std::max(fastest, replica.pace_ns / 8 * kTrustEighths);
      replica.guessed = true;
    }
    replica.given = replica.finished = 0;
    replica.since_ns = -1;
  }
  left_ = micro_batches_;
}

void PullRule::progressed(int replica, int finished, bool computes, std::int64_t pace_ns, std::int64_t now_ns) {
  Replica& it = replicas_.at(static_cast<std::size_t>(replica));
  TROUPE_CHECK(finished <= it.given) << "replica " << replica << " finished " << finished << " micro-batches of " << it.given;
  if (computes && (it.since_ns < 0 || finished > it.finished)) it.since_ns = now_ns;
  it.finished = std::max(it.finished, finished);
  if (pace_ns <= 0) return;
  const bool first = it.pace_ns == 0 || std::exchange(it.guessed, false);
  it.pace_ns = first ? pace_ns : it.pace_ns + (pace_ns - it.pace_ns) / 10 * kNewTenths;
}

std::int64_t PullRule::usual_pace_ns(std::int64_t now_ns) const {
  std::int64_t sum = 0, measured = 0, longest = 1;
  for (const auto& replica : replicas_) {
    sum += replica.pace_ns;
    measured += replica.pace_ns > 0 ? 1 : 0;
    if (replica.since_ns >= 0) longest = std::max(longest, now_ns - replica.since_ns);
  }
  return measured > 0 ? sum / measured : longest;
}

PullRule::Outlook PullRule::outlook(const Replica& replica, std::int64_t now_ns) const {
  Outlook seen{.free_ns = now_ns, .pace_ns = replica.pace_ns > 0 ? replica.pace_ns : usual_pace_ns(now_ns)};
  const int open = replica.given - replica.finished;
  if (open > 0 && replica.since_ns >= 0) {
    seen.pace_ns = std::max(seen.pace_ns, now_ns - replica.since_ns);
    seen.free_ns = replica.since_ns;
  }
  seen.free_ns += open * seen.pace_ns;
  return seen;
}

bool PullRule::may_take(int replica, std::int64_t now_ns) const {
  const std::int64_t done_ns = outlook(at(replica), now_ns).next_ns();
  std::int64_t by_others = 0;  // that they could have computed before
  for (const auto& other : replicas_) {
    if (&other == &at(replica)) continue;
    const Outlook seen = outlook(other, now_ns);
    if (done_ns > seen.free_ns) by_others += (done_ns - seen.free_ns - 1) / seen.pace_ns;
  }
  return by_others < left_;
}

std::optional<int> PullRule::choose(const std::vector<bool>& asks, std::int64_t now_ns) const {
  std::optional<int> chosen;
  std::int64_t first_ns = 0;
  for (int replica = 0; replica < static_cast<int>(replicas_.size()); ++replica) {
    if (!asks[static_cast<std::size_t>(replica)] || !may_take(replica, now_ns)) continue;
    const std::int64_t done_ns = outlook(at(replica), now_ns).next_ns();
    if (chosen && done_ns >= first_ns) continue;
    chosen = replica;
    first_ns = done_ns;
  }
  return chosen;
}

int PullRule::give(int replica) {
  TROUPE_CHECK(left_ > 0) << "all micro-batches of the step are given out";
  ++replicas_.at(static_cast<std::size_t>(replica)).given;
  return micro_batches_ - left_--;
}

bool PullRule::computing() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [](const Replica& replica) { return replica.since_ns >= 0; });
}

std::int64_t PullRule::patience_ns() const {
  std::int64_t fastest = 0;
  for (const auto& replica : replicas_) {
    if (replica.pace_ns > 0 && (fastest == 0 || replica.pace_ns < fastest)) fastest = replica.pace_ns;
  }
  return std::clamp(fastest / 2, kLeastPatienceNs, kMostPatienceNs);
}

}  // namespace troupe::actors
