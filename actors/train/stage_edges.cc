#include "actors/train/stage_edges.h"

#include "absl/strings/str_cat.h"

namespace troupe::actors {
namespace {

// An edge between processes is called after the port it ends at, the same on both sides.
std::string edge_name(const plan::StageShape& to, const actor::InPort& port) {
  return absl::StrCat("stage-", to.index.value, ".", port.name());
}

// To a stage's next one, in rank `next`.
void connect_down(const StagesHere& here, const plan::StageShape& shape, Stage& stage, const plan::StageMemory& memory, Rank next) {
  const auto& neighbour = here.plan.stages[static_cast<std::size_t>(shape.index.value) + 1];
  actor::connect(stage.activation_out, here.far->in<Activation>(next, edge_name(neighbour, stage.activation_in)),
                 {.credits = shape.activation_credits});
  actor::connect(here.far->out<Gradient>(next, edge_name(shape, stage.gradient_in), memory.gradients_in), stage.gradient_in,
                 {.credits = neighbour.gradient_credits});
  if (!here.evaluates) return;
  actor::connect(stage.evaluation_out, here.far->in<Activation>(next, edge_name(neighbour, stage.evaluation_in)),
                 {.credits = plan::kEvaluationCredits});
}

// To a stage's previous one, in rank `previous`.
void connect_up(const StagesHere& here, const plan::StageShape& shape, Stage& stage, const plan::StageMemory& memory, Rank previous) {
  const auto& neighbour = here.plan.stages[static_cast<std::size_t>(shape.index.value) - 1];
  actor::connect(here.far->out<Activation>(previous, edge_name(shape, stage.activation_in), memory.activations_in), stage.activation_in,
                 {.credits = neighbour.activation_credits});
  actor::connect(stage.gradient_out, here.far->in<Gradient>(previous, edge_name(neighbour, stage.gradient_in)),
                 {.credits = shape.gradient_credits});
  if (!here.evaluates) return;
  actor::connect(here.far->out<Activation>(previous, edge_name(shape, stage.evaluation_in), memory.evaluation_in), stage.evaluation_in,
                 {.credits = plan::kEvaluationCredits});
}

}  // namespace

void connect_stages(const StagesHere& here) {
  const auto& placement = here.plan.placement;
  const auto shapes = here.plan.stages_of(placement.part_of(here.rank));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& shape = shapes[i];
    auto& stage = *here.stages[i];
    if (i == 0 && !shape.first()) connect_up(here, shape, stage, here.memory[i], Rank(here.rank.value - 1));
    if (shape.last()) continue;
    if (i + 1 == shapes.size()) {
      connect_down(here, shape, stage, here.memory[i], Rank(here.rank.value + 1));
      continue;
    }
    auto& next = *here.stages[i + 1];
    actor::connect(stage.activation_out, next.activation_in, {.credits = shape.activation_credits});
    actor::connect(next.gradient_out, stage.gradient_in, {.credits = shapes[i + 1].gradient_credits});
    if (here.evaluates) actor::connect(stage.evaluation_out, next.evaluation_in, {.credits = plan::kEvaluationCredits});
  }
}

}  // namespace troupe::actors
