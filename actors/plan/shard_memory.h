// What one parameter shard holds: flat buffers of one block, all of the block's layout (models/parameters.h).
#pragma once

#include "comm/collective/collective.h"
#include "models/context.h"
#include "models/parameters.h"

namespace troupe::plan {

using device::Tensor;

// Which of a block's elements are a replica's: those it saves, and with ZeRO those it holds the master and the moments (1), the gradient sum
// (2) and the weights (3) of.
//
// With hybrid sharding, groups of consecutive replicas split the parameters between them, and each group has all of them: a sum goes over a
// group first, then over those with the same part in each.
struct ShardShare {
  int replica = 0, replicas = 1;
  int zero = 0;
  int group = 0;                     // replicas that split between them; 0: all
  // A tied embedding's two uses are in different processes: either has a copy of the block and sums its own use.
  bool uses_apart = false;

  int members() const { return zero >= 1 && group > 0 ? group : replicas; }  // of a group
  int groups() const { return replicas / members(); }
  int member() const { return replica % members(); }
  int first_of_group() const { return replica - member(); }
  // What all groups have, the first saves, and measures the norm of.
  bool counts() const { return replica < members(); }

  // The cut of a block's elements over a group, at multiples of the norm's chunks, so that the norm has one order of sums.
  comm::Parts parts(std::int64_t elements) const { return comm::Parts::equal(elements, members(), kernels::kNormChunk); }
  // The same cut, of a block's elements [begin, end) alone.
  comm::Parts parts(std::int64_t elements, std::int64_t begin, std::int64_t end) const;
  bool splits_optimizer() const { return zero >= 1 && replicas > 1; }
  bool splits_gradients() const { return zero >= 2 && replicas > 1; }
  // A block of one chunk, or without a matrix, is not worth a gather: its weights stay whole everywhere.
  bool splits_weights(const models::BlockLayout& layout) const;
};

// `held`: this replica's part where the optimizer is split, else all; `own`: of its part, what it saves.
struct ShardMemory {
  BlockIndex block;
  bool copy = false;                 // of a tied embedding, for the head's use: updated as the first, never measured nor saved
  std::int64_t own_begin = 0, own_end = 0, held_begin = 0, held_end = 0;
  Tensor master, m, v;               // [held] fp32
  Tensor gradient;                   // [elements] fp32; [held] where gradients are split
  Tensor weights;                    // [elements] of the compute type, [held] where weights are split; fp32 computes with the master itself
  Tensor head_gradient;              // [Vp C] fp32: a tied embedding's second use, summed apart; where gradients are split, of the held part;
                                     // none where the uses are apart
  Tensor norm_chunks;                // [chunks] fp64
  Tensor snapshot_master, snapshot_m, snapshot_v;  // [own] a consistent copy being written; only where checkpoints are taken

  static ShardMemory take(const models::ModelConfig& model, const models::BlockLayout& layout, device::DType compute,
                          bool snapshots, device::Allocator& from, const ShardShare& share = {});

  // Elements [begin, end) of the block, given by their place in it, in a buffer that holds all of them or the held part.
  device::TensorView of_held(const Tensor& flat, std::int64_t begin, std::int64_t end) const {
    return flat.view().rows(begin - held_begin, end - held_begin);
  }
  device::TensorView gradient_of(std::int64_t begin, std::int64_t end) const { return of(gradient, gradient_begin, begin, end); }
  device::TensorView weights_of(std::int64_t begin, std::int64_t end) const { return of(weights, weights_begin, begin, end); }
  // Nothing where [begin, end) has none of the tied rows.
  device::TensorView head_gradient_of(std::int64_t begin, std::int64_t end) const;

  std::int64_t gradient_begin = 0, weights_begin = 0;  // the first element of those buffers
  std::int64_t head_begin = 0, head_end = 0;           // the elements of head_gradient

 private:
  static device::TensorView of(const Tensor& flat, std::int64_t first, std::int64_t begin, std::int64_t end) {
    return flat.view().rows(begin - first, end - first);
  }
};

}  // namespace troupe::plan
