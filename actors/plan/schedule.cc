#include "actors/plan/schedule.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "actors/plan/plan.h"

namespace troupe::plan {
namespace {

// Passes of one direction that are rehearsed, about: milliseconds.
constexpr int kPassesMost = 1 << 14;

}  // namespace

bool ScheduleWalk::down_ready(int stage) const {
  const int others = rules_->pooled ? at(stage + 1).gradient.held() : 0;
  return at(stage).activation.held() + others < shape(stage).activation_credits;
}

bool ScheduleWalk::up_ready(int stage) const {
  if (rules_->pooled) return at(stage - 1).activation.held() + at(stage).gradient.held() < shape(stage - 1).activation_credits;
  return at(stage).gradient.held() < shape(stage).gradient_credits;
}

bool ScheduleWalk::may(const Move& move) const {
  const StageAt& it = at(move.stage);
  const bool first = shape(move.stage).first(), last = shape(move.stage).last();
  switch (move.kind) {
    case Kind::kActivationComes: return it.activation.sent > it.activation.arrived;
    case Kind::kGradientComes: return it.gradient.sent > it.gradient.arrived;
    case Kind::kActivationCreditBack: return it.activation.released > it.activation.back;
    case Kind::kGradientCreditBack: return it.gradient.released > it.gradient.back;
    case Kind::kBeginBackward:
      return it.backward_begun == it.backward_done && it.backward_begun < it.forward_done &&
             (last || at(move.stage + 1).gradient.arrived > it.backward_begun) && (first || up_ready(move.stage));
    case Kind::kBeginForward:
      return it.forward_begun == it.forward_done && it.forward_begun < rules_->micro_batches &&
             (first || at(move.stage - 1).activation.arrived > it.forward_begun) && it.in_flight() < shape(move.stage).in_flight &&
             (last || down_ready(move.stage));
    case Kind::kEndForward: return it.forward_begun > it.forward_done;
    case Kind::kEndBackward: return it.backward_begun > it.backward_done;
  }
  return false;
}

std::vector<ScheduleWalk::Move> ScheduleWalk::moves() const {
  std::vector<Move> all;
  for (int stage = 0; stage < static_cast<int>(at_.size()); ++stage) {
    for (int kind = 0; kind < kKinds; ++kind) {
      if (const Move move{static_cast<Kind>(kind), stage}; may(move)) all.push_back(move);
    }
  }
  return all;
}

void ScheduleWalk::make(const Move& move) {
  StageAt& it = stage_at(move.stage);
  const bool first = shape(move.stage).first(), last = shape(move.stage).last();
  switch (move.kind) {
    case Kind::kActivationComes: ++it.activation.arrived; break;
    case Kind::kGradientComes: ++it.gradient.arrived; break;
    case Kind::kActivationCreditBack: ++it.activation.back; break;
    case Kind::kGradientCreditBack: ++it.gradient.back; break;
    case Kind::kBeginBackward:
      ++it.backward_begun;
      if (!first) ++it.gradient.taken;
      break;
    case Kind::kBeginForward:
      ++it.forward_begun;
      if (!last) ++it.activation.taken;
      break;
    case Kind::kEndForward:
      ++it.forward_done;
      if (!last) ++it.activation.sent;
      break;
    case Kind::kEndBackward:  // what it was computed from is given back
      ++it.backward_done;
      if (!first) ++it.gradient.sent, ++stage_at(move.stage - 1).activation.released;
      if (!last) ++stage_at(move.stage + 1).gradient.released;
      break;
  }
}

bool ScheduleWalk::finished() const {
  return std::all_of(at_.begin(), at_.end(), [this](const StageAt& it) { return it.backward_done == rules_->micro_batches; });
}

bool ScheduleWalk::within_bounds() const {
  for (int stage = 0; stage < static_cast<int>(at_.size()); ++stage) {
    const StageAt& it = at(stage);
    if (it.in_flight() > shape(stage).in_flight || it.activation.held() > shape(stage).activation_credits ||
        it.gradient.held() > shape(stage).gradient_credits) {
      return false;
    }
  }
  return true;
}

std::string ScheduleWalk::describe() const {
  std::string text;
  for (int stage = 0; stage < static_cast<int>(at_.size()); ++stage) {
    const StageAt& it = at(stage);
    absl::StrAppend(&text, stage > 0 ? "; " : "", "stage-", stage, " has done ", it.forward_done, " forward and ", it.backward_done, " backward passes of ",
                    rules_->micro_batches);
    if (it.in_flight() >= shape(stage).in_flight) absl::StrAppend(&text, ", all of its ", shape(stage).in_flight, " slots are in use");
    if (!shape(stage).last() && !down_ready(stage)) absl::StrAppend(&text, ", it has no credit for an activation");
    if (!shape(stage).first() && !up_ready(stage)) absl::StrAppend(&text, ", it has no credit for a gradient");
  }
  return text;
}

namespace {

using Kind = ScheduleWalk::Kind;

// By its key, as the device loop has it: backward before forward, the oldest micro-batch, the first stage.
struct Pass {
  bool forward;
  int micro_batch, stage;
  friend auto operator<=>(const Pass&, const Pass&) = default;
};

// The one compute stream of a process.
struct Device {
  std::set<Pass> ready;
  bool busy = false;
};

class VirtualTime {
 public:
  explicit VirtualTime(const Plan& plan)
      : plan_(plan), stages_(static_cast<int>(plan.stages.size())),
        rules_{plan.stages, std::min(plan.micro_batches, std::max(4 * stages_, kPassesMost / stages_))}, walk_(rules_),
        devices_(static_cast<std::size_t>(plan.placement.parts)) {
    done_.micro_batches = rules_.micro_batches;
    done_.in_flight.assign(plan.stages.size(), 0);
  }

  StatusOr<Rehearsal> run() {
    for (int stage = 0; stage < stages_; ++stage) let_begin(stage);
    double busy = 0;
    while (start_devices(busy), !running_.empty()) {
      const auto [at, device, pass] = running_.extract(running_.begin()).value();
      done_.span_flops = at;  // now
      devices_[static_cast<std::size_t>(device)].busy = false;
      walk_.make({pass.forward ? Kind::kEndForward : Kind::kEndBackward, pass.stage});
      for (int stage = std::max(0, pass.stage - 1); stage <= std::min(stages_ - 1, pass.stage + 1); ++stage) let_begin(stage);
    }
    if (!walk_.finished()) {
      return absl::FailedPreconditionError(absl::StrCat("the plan's schedule stops before the end of a step: ", walk_.describe(),
                                                        ". Choose another parallelism.schedule or parallelism.pipeline"));
    }
    done_.bubble_share = 1 - busy / (done_.span_flops * static_cast<double>(devices_.size()));
    return done_;
  }

 private:
  double cost(const Pass& pass) const {
    const StageShape& shape = plan_.stages[static_cast<std::size_t>(pass.stage)];
    const double layers = shape.layers() * plan_.layer_cost();
    // The head's gradients are made along with its loss.
    if (pass.forward) return layers + (shape.last() ? 3 * plan_.head_cost() : 0);
    return layers * (plan_.recompute == models::Recompute::kFull ? 3 : 2);
  }

  // What comes to the stage and what goes from it is there at once; then its passes begin as the stage begins them: before the device has room.
  void let_begin(int stage) {
    for (const Kind kind : {Kind::kActivationComes, Kind::kGradientComes, Kind::kActivationCreditBack, Kind::kGradientCreditBack}) {
      bool moved = false;
      for (; walk_.may({kind, stage}); moved = true) walk_.make({kind, stage});
      if (!moved) continue;
      if (stage > 0) begin_passes(stage - 1);
      if (stage + 1 < stages_) begin_passes(stage + 1);
    }
    begin_passes(stage);
  }

  void begin_passes(int stage) {
    auto& ready = devices_[static_cast<std::size_t>(plan_.placement.part_of_stage(stage))].ready;
    const auto& at = walk_.at(stage);
    if (walk_.may({Kind::kBeginBackward, stage})) {
      ready.insert({.forward = false, .micro_batch = at.backward_begun, .stage = stage});
      walk_.make({Kind::kBeginBackward, stage});
    }
    if (walk_.may({Kind::kBeginForward, stage})) {
      ready.insert({.forward = true, .micro_batch = at.forward_begun, .stage = stage});
      walk_.make({Kind::kBeginForward, stage});
    }
    int& most = done_.in_flight[static_cast<std::size_t>(stage)];
    most = std::max(most, at.in_flight());
  }

  void start_devices(double& busy) {
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      auto& [ready, at_work] = devices_[device];
      if (at_work || ready.empty()) continue;
      at_work = true;
      const Pass pass = ready.extract(ready.begin()).value();
      busy += cost(pass);
      running_.emplace(done_.span_flops + cost(pass), static_cast<int>(device), pass);
    }
  }

  const Plan& plan_;
  const int stages_;
  const ScheduleRules rules_;
  ScheduleWalk walk_;
  std::vector<Device> devices_;
  std::set<std::tuple<double, int, Pass>> running_;  // when it ends, where
  Rehearsal done_;
};

}  // namespace

StatusOr<Rehearsal> rehearse(const Plan& plan) { return VirtualTime(plan).run(); }

}  // namespace troupe::plan
