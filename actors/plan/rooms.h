// Memory that split blocks pass through: rooms for gathered weights (ZeRO-3), and for a micro-batch's gradients until they are reduced
// and added to the parts of their owners (ZeRO-2 and 3).
//
// Gradient rooms are of kinds, because a room is free again only when all replicas have reduced what lies in it: within a stage the order in
// which passes take rooms of one kind is the same on every replica, so nobody waits in a circle. Weights are pulled from their owners and need
// no order: any room takes any block.
#pragma once

#include <array>
#include <vector>

#include "models/context.h"
#include "models/parameters.h"

namespace troupe::plan {

using device::Tensor;

struct Plan;
struct ShardShare;
struct StageShape;

// What a pass makes of a block's gradient in one go.
enum class GradientUse : std::uint8_t {
  kBlock,       // everything but what the next one makes
  kProjection,  // [Vp C] of the head's product: of the head block, or of a tied embedding
};

// Elements [begin, end) of the block.
struct GradientRange {
  BlockIndex block;
  std::int64_t begin = 0, end = 0;
  std::int64_t elements() const { return end - begin; }
};
// `block`: the one that the pass is at. The projection of a tied model belongs to block 0.
GradientRange gradient_range(const models::ModelConfig& model, const std::vector<models::BlockLayout>& blocks, BlockIndex block, GradientUse use);
// How many ranges of a process make up a block's gradient. Where gradients are split they are reduced range by range, so an untied head has
// two; a tied embedding has two, unless they are apart.
int gradient_uses(const models::ModelConfig& model, BlockIndex block, const ShardShare& share);

enum class GradientRoom : std::uint8_t { kEmbedding, kLayer, kProjection };
inline constexpr int kGradientRooms = 3;  // kinds

// Elements of each room; none where blocks are not split.
struct RoomShape {
  std::vector<BlockIndex> split;                                     // whose weights this stage gathers
  std::vector<std::int64_t> weights;                                 // of the compute type
  bool keeps_weights = false;                                        // a room for each of `split`: gathered once a step
  std::array<std::vector<std::int64_t>, kGradientRooms> gradients;   // fp32, by GradientRoom

  static RoomShape of(const Plan& plan, const StageShape& shape);
};

struct RoomMemory {
  std::vector<Tensor> weights;
  std::array<std::vector<Tensor>, kGradientRooms> gradients;

  static RoomMemory take(const RoomShape& shape, const models::Geometry& geometry, device::Allocator& from);
};

}  // namespace troupe::plan
