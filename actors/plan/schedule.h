// A step's schedule before anything runs: what the stages' rule (actors/train/stage.cc, start_forward and start_backward) lets happen next, by
// counts alone. `rehearse` runs it in virtual time and refuses a plan whose step does not come to its end within its credits; the tests walk
// it in every order of events (CASES T30). Pure; rooms for split blocks are not in it, stages never wait for each other there (rooms.h).
#pragma once

#include <string>
#include <vector>

#include "actors/plan/stage_memory.h"
#include "runtime/base/status.h"

namespace troupe::plan {

struct Plan;

struct ScheduleRules {
  std::vector<StageShape> stages;
  int micro_batches = 1;
  bool pooled = false;  // one pool of credits for what goes down to the next stage and for what comes back up: no plan's, what T30 warns of
};

class ScheduleWalk {
 public:
  enum class Kind { kActivationComes, kGradientComes, kActivationCreditBack, kGradientCreditBack, kBeginBackward, kBeginForward, kEndForward, kEndBackward };
  static constexpr int kKinds = 8;
  struct Move {
    Kind kind;
    int stage;
  };
  // What goes from one stage to a neighbour: counts of what has been taken, sent, come, released and come back.
  struct Way {
    int taken = 0, sent = 0, arrived = 0, released = 0, back = 0;
    int held() const { return taken - back; }
  };
  struct StageAt {
    int forward_begun = 0, forward_done = 0, backward_begun = 0, backward_done = 0;
    Way activation, gradient;  // to the next, to the previous
    int in_flight() const { return forward_begun - backward_done; }
  };

  // `rules` outlive it and its copies.
  explicit ScheduleWalk(const ScheduleRules& rules) : rules_(&rules), at_(rules.stages.size()) {}

  bool may(const Move& move) const;
  std::vector<Move> moves() const;  // all that may happen next
  void make(const Move& move);

  bool finished() const;
  // No more activations are kept than there are slots, no more is under way than there are credits.
  bool within_bounds() const;
  const StageAt& at(int stage) const { return at_[static_cast<std::size_t>(stage)]; }
  std::string describe() const;

 private:
  const StageShape& shape(int stage) const { return rules_->stages[static_cast<std::size_t>(stage)]; }
  StageAt& stage_at(int stage) { return at_[static_cast<std::size_t>(stage)]; }
  bool down_ready(int stage) const;
  bool up_ready(int stage) const;

  const ScheduleRules* rules_;
  std::vector<StageAt> at_;
};

// A step in virtual time: passes take their FLOPs, what goes between stages takes none, and the stages of a process take turns by
// the keys of their passes.
struct Rehearsal {
  int micro_batches = 0;       // rehearsed: of a long step only so many that it has found its beat
  double span_flops = 0;       // from the first pass to the end of the last, as if all were done by one process
  double bubble_share = 0;     // of the processes' time, nothing to compute
  std::vector<int> in_flight;  // by stage, at most
};
// kFailedPrecondition: it stops, and where.
StatusOr<Rehearsal> rehearse(const Plan& plan);

}  // namespace troupe::plan
