#include "actors/plan/shard_memory.h"

namespace troupe::plan {

ShardMemory ShardMemory::take(const models::ModelConfig& model, const models::BlockLayout& layout, device::DType compute,
                              bool snapshots, device::Allocator& from, const ShardShare& share) {
  const comm::Parts parts = share.parts(layout.elements);
  ShardMemory memory{.own_begin = parts.begin(share.replica), .own_end = parts.end(share.replica)};
  memory.held_begin = share.splits_optimizer() ? memory.own_begin : 0;
  memory.held_end = share.splits_optimizer() ? memory.own_end : layout.elements;
  const device::Shape whole{layout.elements}, held{memory.held_end - memory.held_begin}, own{parts.size(share.replica)};
  const auto sums = compute == device::DType::kF64 ? device::DType::kF64 : device::DType::kF32;
  if (compute == sums) {
    memory.weights = from.take("parameters", sums, whole);
    memory.master = memory.weights.rows(memory.held_begin, memory.held_end);
  } else {
    memory.weights = from.take("weights", compute, whole);
    memory.master = from.take("parameters", sums, held);
  }
  memory.m = from.take("optimizer", sums, held);
  memory.v = from.take("optimizer", sums, held);
  memory.gradient = from.take("gradients", sums, whole);
  if (model.tied_embeddings && layout.block.value == 0) {
    memory.head_gradient = from.take("gradients", sums, {model.padded_vocabulary, model.hidden});
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

}  // namespace troupe::plan
