#include "actors/plan/shard_memory.h"

namespace troupe::plan {

ShardMemory ShardMemory::take(const models::ModelConfig& model, const models::BlockLayout& layout, device::DType compute,
                              bool snapshots, device::Allocator& from) {
  const device::Shape flat{layout.elements};
  const auto sums = compute == device::DType::kF64 ? device::DType::kF64 : device::DType::kF32;
  ShardMemory memory;
  memory.master = from.take("parameters", sums, flat);
  memory.weights = compute == sums ? memory.master : from.take("weights", compute, flat);
  memory.m = from.take("optimizer", sums, flat);
  memory.v = from.take("optimizer", sums, flat);
  memory.gradient = from.take("gradients", sums, flat);
  if (model.tied_embeddings && layout.block.value == 0) {
    memory.head_gradient = from.take("gradients", sums, {model.padded_vocabulary, model.hidden});
  }
  memory.norm_chunks =
      from.take("workspace", device::DType::kF64, {(layout.elements + kernels::kNormChunk - 1) / kernels::kNormChunk});
  if (snapshots) {
    memory.snapshot_master = from.take("snapshot", sums, flat);
    memory.snapshot_m = from.take("snapshot", sums, flat);
    memory.snapshot_v = from.take("snapshot", sums, flat);
  }
  return memory;
}

}  // namespace troupe::plan
