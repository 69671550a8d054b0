// What one parameter shard holds: flat buffers of one block, all of the block's layout (models/parameters.h).
#pragma once

#include "comm/collective/collective.h"
#include "models/context.h"
#include "models/parameters.h"

namespace troupe::plan {

using device::Tensor;

// Which of a block's elements are a replica's: those it saves, and with ZeRO those it holds the master and the moments of.
struct ShardShare {
  int replica = 0, replicas = 1;
  int zero = 0;

  // The cut of a block's elements over the replicas, at multiples of the norm's chunks, so that the norm has one order of sums.
  comm::Parts parts(std::int64_t elements) const { return comm::Parts::equal(elements, replicas, kernels::kNormChunk); }
  bool splits_optimizer() const { return zero >= 1 && replicas > 1; }
};

// `own`: the part of this replica; `held`: the own part where the optimizer is split, else all.
struct ShardMemory {
  std::int64_t own_begin = 0, own_end = 0, held_begin = 0, held_end = 0;
  Tensor master, m, v;               // [held] fp32
  Tensor gradient;                   // [elements] fp32
  Tensor weights;                    // [elements] of the compute type; fp32 computes with the master itself
  Tensor head_gradient;              // [Vp C] fp32: a tied embedding's second use, summed apart
  Tensor norm_chunks;                // [chunks] fp64
  Tensor snapshot_master, snapshot_m, snapshot_v;  // [own] a consistent copy being written; only where checkpoints are taken

  static ShardMemory take(const models::ModelConfig& model, const models::BlockLayout& layout, device::DType compute,
                          bool snapshots, device::Allocator& from, const ShardShare& share = {});

  // A part of the held elements, given by its place in the block.
  device::TensorView of_held(const Tensor& flat, std::int64_t begin, std::int64_t end) const {
    return flat.view().rows(begin - held_begin, end - held_begin);
  }
};

}  // namespace troupe::plan
