// Who takes the next micro-batch of a step, so that the step ends as early as it can by what was measured.
//
// A replica that has room is given one unless the others would have computed all that is left before it had computed this one. So a
// replica three times slower takes a third, and never begins one at the end that all others then wait for. Pure: times come in.
//
// What is known of a replica: how many it was given, how many of them it has finished, since when it computes the next, and its pace,
// the time that one takes (a moving average). One that runs late is taken to be as slow as it already shows. One that took none in a
// step is taken to be a little faster in the next, so that it is tried again.
//
// Threads: one owner. Units: ns of one clock. Errors: more finished than given, more given than there are: bugs.
// Invariants: the one that would finish first always may, so a step never stops (PullRule.NeverRefusesAllOfThem); with paces that stay as
// measured no sharing ends the step earlier (PullRule.EndsAsEarlyAsTheBestShares).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::actors {

class PullRule {
 public:
  // Nothing is open yet.
  PullRule(int replicas, int micro_batches);

  // A step of that many micro-batches; the one before is given out.
  void open_step();
  // `pace_ns`: of those finished since the last call; 0 if none was. `computes`: it works on what it has.
  void progressed(int replica, int finished, bool computes, std::int64_t pace_ns, std::int64_t now_ns);
  bool may_take(int replica, std::int64_t now_ns) const;
  // Which of those that ask gets one now: the one that would finish it first, if any may.
  std::optional<int> choose(const std::vector<bool>& asks, std::int64_t now_ns) const;
  // One more is the replica's. Gives its index in the step: they go out in order.
  int give(int replica);

  int left() const { return left_; }
  int given(int replica) const { return at(replica).given; }
  // Whether anybody computes: only then does time change what the rule says.
  bool computing() const;
  // How long to wait before asking again, for those that may take none now.
  std::int64_t patience_ns() const;

 private:
  struct Replica {
    int given = 0, finished = 0;         // of the step
    std::int64_t since_ns = -1;          // when it began the one after those finished; -1: it has not
    std::int64_t pace_ns = 0;            // 0: not measured yet
    bool guessed = false;                // pace_ns is lower than what was measured
  };
  const Replica& at(int replica) const { return replicas_.at(static_cast<std::size_t>(replica)); }
  // Of a replica as it looks now: when it will have computed what it was given, and how long one takes.
  struct Outlook {
    std::int64_t free_ns = 0, pace_ns = 1;
    std::int64_t next_ns() const { return free_ns + pace_ns; }
  };
  Outlook outlook(const Replica& replica, std::int64_t now_ns) const;
  // Of one that was not measured: the others' mean, or at least what the longest computing one already took.
  std::int64_t usual_pace_ns(std::int64_t now_ns) const;

  const int micro_batches_;
  int left_ = 0;
  std::vector<Replica> replicas_;
};

}  // namespace troupe::actors
