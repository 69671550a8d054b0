#include "actors/plan/rooms.h"

#include <algorithm>

#include "actors/plan/plan.h"

namespace troupe::plan {
namespace {

// One being written by the weight gradient, one being reduced.
constexpr int kLayerGradientRooms = 2;

}  // namespace

GradientRange gradient_range(const models::ModelConfig& model, const std::vector<models::BlockLayout>& blocks, BlockIndex block, GradientUse use) {
  const bool projection = use == GradientUse::kProjection;
  const BlockIndex holder = projection && model.tied_embeddings ? BlockIndex(0) : block;
  const auto& layout = blocks[static_cast<std::size_t>(holder.value)];
  const auto* rows = layout.group(model.tied_embeddings ? models::Role::kTokenEmbedding : models::Role::kHead);
  if (projection) return {holder, rows->offset, rows->offset + rows->shape.elements()};
  // the projection is a head block's last parameter
  const bool apart = block == model.head_block() && !model.tied_embeddings;
  return {holder, 0, apart ? rows->offset : layout.elements};
}

int gradient_uses(const models::ModelConfig& model, BlockIndex block, const ShardShare& share) {
  if (block.value == 0) return model.tied_embeddings && !share.uses_apart ? 2 : 1;
  return block == model.head_block() && share.splits_gradients() && !model.tied_embeddings ? 2 : 1;
}

RoomShape RoomShape::of(const Plan& plan, const StageShape& shape) {
  RoomShape rooms;
  const auto share = plan.share(0);
  const std::int32_t first = shape.first() ? 0 : shape.block(0).value;
  const std::int32_t end = shape.last() ? plan.model.head_block().value + 1 : shape.block(shape.layers()).value;
  const auto layout = [&](std::int32_t block) -> const models::BlockLayout& { return plan.blocks[static_cast<std::size_t>(block)]; };
  const auto elements = [&](std::int32_t block) { return layout(block).elements; };

  // the projection of a tied model reads block 0
  if (shape.last() && !shape.first() && plan.model.tied_embeddings && share.splits_weights(layout(0))) rooms.split.push_back(BlockIndex(0));
  for (std::int32_t block = first; block < end; ++block) {
    if (share.splits_weights(layout(block))) rooms.split.push_back(BlockIndex(block));
  }
  std::int64_t largest = 0;
  for (const auto block : rooms.split) largest = std::max(largest, elements(block.value));
  rooms.keeps_weights = !plan.reshard_after_forward || static_cast<int>(rooms.split.size()) <= plan.prefetch + 1;
  if (rooms.keeps_weights) {
    for (const auto block : rooms.split) rooms.weights.push_back(elements(block.value));
  } else {
    rooms.weights.assign(static_cast<std::size_t>(plan.prefetch) + 1, largest);
  }

  if (!share.splits_gradients()) return rooms;
  auto& [embedding, layers, projection] = rooms.gradients;
  if (shape.first()) embedding = {elements(0)};
  std::int64_t layer = 0;
  for (int i = 0; i < shape.layers(); ++i) layer = std::max(layer, elements(shape.block(i).value));
  if (shape.last()) {
    layer = std::max(layer, gradient_range(plan.model, plan.blocks, plan.model.head_block(), GradientUse::kBlock).elements());
    projection = {gradient_range(plan.model, plan.blocks, plan.model.head_block(), GradientUse::kProjection).elements()};
  }
  layers.assign(kLayerGradientRooms, layer);
  return rooms;
}

RoomMemory RoomMemory::take(const RoomShape& shape, const models::Geometry& geometry, device::Allocator& from) {
  RoomMemory memory;
  for (const auto elements : shape.weights) memory.weights.push_back(from.take("gathered weights", geometry.compute, {elements}));
  for (std::size_t kind = 0; kind < memory.gradients.size(); ++kind) {
    for (const auto elements : shape.gradients[kind]) {
      memory.gradients[kind].push_back(from.take("gradient rooms", geometry.sums(), {elements}));
    }
  }
  return memory;
}

}  // namespace troupe::plan
