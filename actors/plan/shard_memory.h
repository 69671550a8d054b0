// What one parameter shard holds: flat buffers of one block, all of the block's layout (models/parameters.h).
#pragma once

#include "models/context.h"
#include "models/parameters.h"

namespace troupe::plan {

using device::Tensor;

struct ShardMemory {
  Tensor master, m, v, gradient;     // [elements] fp32
  Tensor weights;                    // [elements] of the compute type; fp32 computes with the master itself
  Tensor head_gradient;              // [Vp C] fp32: a tied embedding's second use, summed apart
  Tensor norm_chunks;                // [chunks] fp64
  Tensor snapshot_master, snapshot_m, snapshot_v;  // a consistent copy being written; only where checkpoints are taken

  static ShardMemory take(const models::ModelConfig& model, const models::BlockLayout& layout, device::DType compute,
                          bool snapshots, device::Allocator& from);
};

}  // namespace troupe::plan
