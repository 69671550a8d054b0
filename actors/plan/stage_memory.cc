#include "actors/plan/stage_memory.h"

namespace troupe::plan {
namespace {

using device::DType;
using models::HeadFrame, models::MicroBatchInputs, models::TransformerFrame, models::TransformerGradientFrame;

ActivationSlot take_slot(const models::ModelConfig& model, const StageShape& shape, const StageOptions& options,
                         const TransformerFrame& workspace, device::Allocator& from) {
  const auto& g = options.geometry;
  const device::Shape rows{g.rows(), model.hidden};
  ActivationSlot slot;
  if (shape.first()) slot.embedded = from.take("activations", g.compute, rows);
  for (int layer = 0; layer < shape.layers(); ++layer) {
    slot.frames.push_back(TransformerFrame::keep(options.recompute, model, g, from, "activations", workspace));
    const bool leaves = layer + 1 == shape.layers() && !shape.last();
    slot.outputs.push_back(leaves ? Tensor() : from.take("activations", g.compute, rows));
  }
  if (shape.last()) slot.head = HeadFrame::take(model, g, true, from, "activations");
  return slot;
}

void take_evaluation(StageMemory& memory, const models::ModelConfig& model, const StageShape& shape, const StageOptions& options,
                     device::Allocator& from) {
  const auto& g = options.geometry;
  const device::Shape rows{g.rows(), model.hidden};
  for (int i = 0; i < kEvaluationCredits; ++i) {
    memory.evaluation_inputs.push_back(MicroBatchInputs::take(from, "evaluation", g));
    if (!shape.last()) memory.evaluation_out.push_back(from.take("evaluation", g.compute, rows));
    if (shape.far_activations > 0) memory.evaluation_in.push_back(from.take("evaluation", g.compute, rows));
  }
  memory.evaluation_frame = TransformerFrame::keep_all(model, g, from, "evaluation");
  for (auto& x : memory.evaluation_x) x = from.take("evaluation", g.compute, rows);
  if (shape.last()) {
    memory.evaluation_head = HeadFrame::take(model, g, false, from, "evaluation");
    memory.evaluation_totals = from.take("evaluation", DType::kF64, {options.evaluation_batches, 2});
  }
}

}  // namespace

StageMemory StageMemory::take(const models::ModelConfig& model, const StageShape& shape, const StageOptions& options,
                              device::Allocator& from) {
  const auto& g = options.geometry;
  const device::Shape rows{g.rows(), model.hidden};
  StageMemory memory;
  for (int i = 0; i < shape.batch_credits; ++i) memory.inputs.push_back(MicroBatchInputs::take(from, "inputs", g));
  if (!model.learned_positions()) memory.inverse_frequency = from.take("workspace", DType::kF32, {model.head_dim / 2});
  if (options.recompute != models::Recompute::kNone) {
    memory.workspace = TransformerFrame::keep_all(model, g, from, "workspace");
  } else if (model.dropout > 0) {
    memory.workspace.branch = from.take("workspace", g.compute, rows);
  }
  for (int i = 0; i < shape.in_flight; ++i) memory.slots.push_back(take_slot(model, shape, options, memory.workspace, from));
  memory.gradients = TransformerGradientFrame::take(model, g, from, "workspace");
  for (auto& gradient : memory.residual_gradients) gradient = from.take("workspace", g.compute, rows);
  for (int i = 0; i < shape.activation_credits; ++i) memory.activations_out.push_back(from.take("edges", g.compute, rows));
  for (int i = 0; i < shape.gradient_credits; ++i) memory.gradients_out.push_back(from.take("edges", g.compute, rows));
  for (int i = 0; i < shape.far_activations; ++i) memory.activations_in.push_back(from.take("edges", g.compute, rows));
  for (int i = 0; i < shape.far_gradients; ++i) memory.gradients_in.push_back(from.take("edges", g.compute, rows));
  if (shape.last()) memory.loss_totals = from.take("workspace", DType::kF64, {options.micro_batches, 2});
  memory.rooms = RoomMemory::take(options.rooms, g, from);
  if (options.evaluation_batches > 0) take_evaluation(memory, model, shape, options, from);
  return memory;
}

}  // namespace troupe::plan
