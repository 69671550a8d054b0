// CASES T30: no order of sends and receives between stages stops, whatever is slow: a static simulator of a stage's rule (actors/train/stage.cc)
// with the plan's credits, in every order of events where there are few, in many drawn ones where there are more. The real stages go through
// the same cases in tests/sim/train/schedules_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/plan/plan.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/rng.h"
#include "tests/support/tiny_job.h"

namespace troupe::plan {
namespace {

struct Rules {
  std::vector<StageShape> stages;
  int micro_batches = 1;
  bool pooled = false;  // one pool of credits for what goes down to the next stage and for what comes back up: what T30 warns of
};

// What goes from one stage to a neighbour: counts of what has been taken, sent, come, released and come back.
struct Way {
  int taken = 0, sent = 0, arrived = 0, released = 0, back = 0;
  int held() const { return taken - back; }
};

struct StageAt {
  int forward_begun = 0, forward_done = 0, backward_begun = 0, backward_done = 0;
  Way activation, gradient;  // to the next, to the previous
};

class Walk {
 public:
  enum class Kind { kBeginForward, kEndForward, kBeginBackward, kEndBackward, kActivationComes, kGradientComes, kActivationCreditBack, kGradientCreditBack };
  struct Move {
    Kind kind;
    int stage;
  };

  explicit Walk(const Rules& rules) : rules_(&rules), at_(rules.stages.size()) {}

  // All that may happen next.
  std::vector<Move> moves() const {
    std::vector<Move> all;
    for (int i = 0; i < static_cast<int>(at_.size()); ++i) {
      for (int kind = 0; kind < 8; ++kind) {
        if (const Move move{static_cast<Kind>(kind), i}; may(move)) all.push_back(move);
      }
    }
    return all;
  }

  void make(const Move& move) {
    StageAt& it = at(move.stage);
    const bool first = shape(move.stage).first(), last = shape(move.stage).last();
    switch (move.kind) {
      case Kind::kBeginForward:
        ++it.forward_begun;
        if (!last) ++it.activation.taken;
        break;
      case Kind::kEndForward:
        ++it.forward_done;
        if (!last) ++it.activation.sent;
        break;
      case Kind::kBeginBackward:
        ++it.backward_begun;
        if (!first) ++it.gradient.taken;
        break;
      case Kind::kEndBackward:  // what it was computed from is given back
        ++it.backward_done;
        if (!first) ++it.gradient.sent, ++at(move.stage - 1).activation.released;
        if (!last) ++at(move.stage + 1).gradient.released;
        break;
      case Kind::kActivationComes: ++it.activation.arrived; break;
      case Kind::kGradientComes: ++it.gradient.arrived; break;
      case Kind::kActivationCreditBack: ++it.activation.back; break;
      case Kind::kGradientCreditBack: ++it.gradient.back; break;
    }
  }

  bool finished() const {
    return std::all_of(at_.begin(), at_.end(), [this](const StageAt& it) { return it.backward_done == rules_->micro_batches; });
  }
  // No more activations are kept than there are slots, no more is under way than there are credits.
  bool within_bounds() const {
    for (int i = 0; i < static_cast<int>(at_.size()); ++i) {
      const StageAt& it = at(i);
      if (it.forward_begun - it.backward_done > shape(i).in_flight || it.activation.held() > shape(i).activation_credits ||
          it.gradient.held() > shape(i).gradient_credits) {
        return false;
      }
    }
    return true;
  }
  std::string state() const {
    std::string bytes;
    for (const StageAt& it : at_) {
      for (const int count : {it.forward_begun, it.forward_done, it.backward_begun, it.backward_done, it.activation.arrived, it.activation.back,
                              it.gradient.arrived, it.gradient.back}) {
        bytes.push_back(static_cast<char>(count));  // the others follow from these
      }
    }
    return bytes;
  }
  std::string describe() const {
    std::string text;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      absl::StrAppend(&text, "stage ", i, ": ", at_[i].forward_done, " forward, ", at_[i].backward_done, " backward; ");
    }
    return text;
  }

 private:
  const StageShape& shape(int stage) const { return rules_->stages[static_cast<std::size_t>(stage)]; }
  StageAt& at(int stage) { return at_[static_cast<std::size_t>(stage)]; }
  const StageAt& at(int stage) const { return at_[static_cast<std::size_t>(stage)]; }

  bool down_ready(int stage) const {
    const int others = rules_->pooled ? at(stage + 1).gradient.held() : 0;
    return at(stage).activation.held() + others < shape(stage).activation_credits;
  }
  bool up_ready(int stage) const {
    if (rules_->pooled) return at(stage - 1).activation.held() + at(stage).gradient.held() < shape(stage - 1).activation_credits;
    return at(stage).gradient.held() < shape(stage).gradient_credits;
  }
  // Stage::start_forward, Stage::start_backward.
  bool may(const Move& move) const {
    const StageAt& it = at(move.stage);
    const StageShape& shape = this->shape(move.stage);
    switch (move.kind) {
      case Kind::kBeginForward:
        return it.forward_begun == it.forward_done && it.forward_begun < rules_->micro_batches &&
               (shape.first() || at(move.stage - 1).activation.arrived > it.forward_begun) &&
               it.forward_begun - it.backward_done < shape.in_flight && (shape.last() || down_ready(move.stage));
      case Kind::kEndForward: return it.forward_begun > it.forward_done;
      case Kind::kBeginBackward:
        return it.backward_begun == it.backward_done && it.backward_begun < it.forward_done &&
               (shape.last() || at(move.stage + 1).gradient.arrived > it.backward_begun) && (shape.first() || up_ready(move.stage));
      case Kind::kEndBackward: return it.backward_begun > it.backward_done;
      case Kind::kActivationComes: return it.activation.sent > it.activation.arrived;
      case Kind::kGradientComes: return it.gradient.sent > it.gradient.arrived;
      case Kind::kActivationCreditBack: return it.activation.released > it.activation.back;
      case Kind::kGradientCreditBack: return it.gradient.released > it.gradient.back;
    }
    return false;
  }

  const Rules* rules_;
  std::vector<StageAt> at_;
};

// Where it stops in any order at all, or empty.
std::string stops_in_any_order(const Rules& rules, std::size_t& states) {
  std::unordered_set<std::string> seen;
  std::vector<Walk> left{Walk(rules)};
  while (!left.empty()) {
    const Walk walk = std::move(left.back());
    left.pop_back();
    if (!seen.insert(walk.state()).second) continue;
    if (!rules.pooled && !walk.within_bounds()) return absl::StrCat("out of bounds: ", walk.describe());
    const auto moves = walk.moves();
    if (moves.empty() && !walk.finished()) return absl::StrCat("stops: ", walk.describe());
    for (const auto& move : moves) {
      left.push_back(walk);
      left.back().make(move);
    }
  }
  states += seen.size();
  return {};
}

std::string stops_in_drawn_orders(const Rules& rules, int orders) {
  for (int order = 0; order < orders; ++order) {
    const RandomStream random({.seed = static_cast<std::uint64_t>(order), .use = 30});
    Walk walk(rules);
    std::uint64_t drawn = 0;
    for (auto moves = walk.moves(); !moves.empty(); moves = walk.moves()) {
      walk.make(moves[random.at(drawn++) % moves.size()]);
      if (!rules.pooled && !walk.within_bounds()) return absl::StrCat("out of bounds: ", walk.describe());
    }
    if (!walk.finished()) return absl::StrCat("order ", order, " stops: ", walk.describe());
  }
  return {};
}

Rules planned(int stages, int micro_batches, const std::string& schedule) {
  const auto job = parse_job_config(test::tiny_config("corpus", "run"), "test.toml",
                                    {"--model.layers=6", absl::StrCat("--parallelism.pipeline=", stages),
                                     absl::StrCat("--training.global_batch=", micro_batches), "--training.micro_batch=1", "--parallelism.schedule=" + schedule});
  EXPECT_TRUE(job.ok()) << job.status();
  const auto plan = make_plan(*job, {.threads = 1}, kernels::cpu::table());
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->micro_batches, micro_batches);
  return {plan->stages, micro_batches};
}

TEST(Schedule, NoOrderOfSendsAndReceivesStops) {
  std::size_t states = 0;
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (int stages = 1; stages <= 3; ++stages) {
      for (int micro_batches = 1; micro_batches <= (stages == 3 ? 3 : 5); ++micro_batches) {
        const Rules rules = planned(stages, micro_batches, schedule);
        EXPECT_EQ(stops_in_any_order(rules, states), "") << schedule << ", " << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
    for (int stages = 2; stages <= 6; ++stages) {
      for (const int micro_batches : {1, 2, 3, 5, 8, 13}) {
        const Rules rules = planned(stages, micro_batches, schedule);
        EXPECT_EQ(stops_in_drawn_orders(rules, 20), "") << schedule << ", " << stages << " stages, " << micro_batches << " micro-batches";
      }
    }
  }
  EXPECT_GT(states, 1'000u);
  printf("%d states\n", static_cast<int>(states));
}

// Not only with the credits that the plan gives: with any number of each, the same for all stages or not.
TEST(Schedule, NoOrderStopsWithAnyCredits) {
  std::size_t states = 0;
  for (int in_flight = 1; in_flight <= 3; ++in_flight) {
    for (int down = 1; down <= 3; ++down) {
      for (int up = 1; up <= 2; ++up) {
        Rules rules = planned(2, 4, "1f1b");
        rules.stages[0].in_flight = in_flight, rules.stages[0].activation_credits = down;
        rules.stages[1].in_flight = 4 - in_flight, rules.stages[1].gradient_credits = up;
        EXPECT_EQ(stops_in_any_order(rules, states), "") << in_flight << " in flight, " << down << " down, " << up << " up";
      }
    }
  }
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random({.seed = seed, .use = 31});
    std::uint64_t drawn = 0;
    const auto draw = [&](int most) { return 1 + static_cast<int>(random.at(drawn++) % static_cast<std::uint64_t>(most)); };
    Rules rules = planned(1 + draw(5), draw(9), "1f1b");
    for (auto& shape : rules.stages) {
      shape.in_flight = draw(4);
      if (!shape.last()) shape.activation_credits = draw(3);
      if (!shape.first()) shape.gradient_credits = draw(3);
    }
    EXPECT_EQ(stops_in_drawn_orders(rules, 5), "") << "seed " << seed;
  }
}

// What it is for: an edge without a credit, and one channel for both directions, where activations take what the gradients need.
TEST(Schedule, TheSimulatorSeesWhatStops) {
  std::size_t states = 0;
  Rules closed = planned(3, 2, "1f1b");
  closed.stages[2].gradient_credits = 0;
  EXPECT_NE(stops_in_any_order(closed, states), "");
  for (int stages = 2; stages <= 3; ++stages) {
    Rules pooled = planned(stages, 2, "gpipe");
    for (auto& shape : pooled.stages) shape.activation_credits = shape.last() ? 0 : 2;
    EXPECT_EQ(stops_in_any_order(pooled, states), "") << "with a channel for each direction";
    pooled.pooled = true;
    EXPECT_NE(stops_in_any_order(pooled, states), "");
    EXPECT_NE(stops_in_drawn_orders(pooled, 50), "");
  }
}

}  // namespace
}  // namespace troupe::plan
