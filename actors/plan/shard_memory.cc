#include "actors/plan/shard_memory.h"

#include <algorithm>

namespace troupe::plan {

comm::Parts ShardShare::parts(std::int64_t elements, std::int64_t begin, std::int64_t end) const {
  comm::Parts cut = parts(elements);
  for (auto& boundary : cut.boundaries) boundary = std::clamp(boundary, begin, end) - begin;
  return cut;
}

bool ShardShare::splits_weights(const models::BlockLayout& layout) const {
  const bool matrices = std::any_of(layout.groups.begin(), layout.groups.end(), [](const auto& role) { return role.shape.dims() > 1; });
  return zero >= 3 && replicas > 1 && layout.elements > kernels::kNormChunk && matrices;
}

ShardMemory ShardMemory::take(const models::ModelConfig& model, const models::BlockLayout& layout, device::DType compute,
                              bool snapshots, device::Allocator& from, const ShardShare& share) {
  const comm::Parts parts = share.parts(layout.elements);
  const std::int64_t begin = parts.begin(share.member()), end = parts.end(share.member());
  ShardMemory memory{.block = layout.block, .own_begin = begin, .own_end = share.counts() ? end : begin};
  memory.held_begin = share.splits_optimizer() ? begin : 0;
  memory.held_end = share.splits_optimizer() ? end : layout.elements;
  memory.gradient_begin = share.splits_gradients() ? begin : 0;
  memory.weights_begin = share.splits_weights(layout) ? begin : 0;
  const device::Shape whole{layout.elements}, held{memory.held_end - memory.held_begin}, part{end - begin};
  const device::Shape own{memory.own_end - memory.own_begin};
  const auto sums = compute == device::DType::kF64 ? device::DType::kF64 : device::DType::kF32;
  const device::Shape weights = share.splits_weights(layout) ? part : whole;
  if (compute == sums) {
    memory.weights = from.take("parameters", sums, weights);
    memory.master = memory.weights.rows(memory.held_begin - memory.weights_begin, memory.held_end - memory.weights_begin);
  } else {
    memory.weights = from.take("weights", compute, weights);
    memory.master = from.take("parameters", sums, held);
  }
  memory.m = from.take("optimizer", sums, held);
  memory.v = from.take("optimizer", sums, held);
  memory.gradient = from.take("gradients", sums, share.splits_gradients() ? part : whole);
  if (model.tied_embeddings && layout.block.value == 0 && !share.uses_apart) {
    const auto* rows = layout.group(models::Role::kTokenEmbedding);
    memory.head_begin = rows->offset;
    memory.head_end = rows->offset + rows->shape.elements();
    if (share.splits_gradients()) {
      memory.head_begin = std::clamp(begin, memory.head_begin, memory.head_end);
      memory.head_end = std::clamp(end, memory.head_begin, memory.head_end);
    }
    memory.head_gradient = from.take("gradients", sums, {memory.head_end - memory.head_begin});
  }
  memory.norm_chunks =
      from.take("workspace", device::DType::kF64, {(layout.elements + kernels::kNormChunk - 1) / kernels::kNormChunk});
  if (snapshots) {
    memory.snapshot_master = from.take("snapshot", sums, own);
    memory.snapshot_m = from.take("snapshot", sums, own);
    memory.snapshot_v = from.take("snapshot", sums, own);
  }
  return memory;
}

device::TensorView ShardMemory::head_gradient_of(std::int64_t begin, std::int64_t end) const {
  const std::int64_t from = std::clamp(begin, head_begin, head_end), to = std::clamp(end, head_begin, head_end);
  return from < to ? of(head_gradient, head_begin, from, to) : device::TensorView();
}

}  // namespace troupe::plan
