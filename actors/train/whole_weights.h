// The weights that lie whole in every replica though their updates are split over them (ZeRO-1 and 2, and small blocks with ZeRO-3): after
// each update the others' parts are fetched into their place, while the next step's passes begin with what has come.
//
// Acts:  WeightsWritten, from the own shard's stream -> the others' parts of that block are fetched, a few blocks at a time in the order in which
//        they were written: the first block that a pass needs has the link first. WeightsWanted -> OpenGate once that block is complete.
// Holds: no memory; parts go into the shards' weights, which nobody reads meanwhile: the passes of the step before have run when its norms
//        are known, and the next ones wait here.
// Says: which rank's part of a block is on its way.
// Fails: when a part cannot be fetched: its owner is gone. The cause names it.
// Invariants: no pass reads a block before all its parts are of its step (WholeWeightsTest.OpensWhenAllPartsAreThere).
#pragma once

#include <deque>
#include <vector>

#include "actors/train/weight_rooms.h"

namespace troupe::actors {

// The own part of the block holds what the update of `step` made of it, on the device.
struct WeightsWritten {
  BlockIndex block;
  StepId step;
};

class WholeWeights : public actor::Actor {
 public:
  static constexpr int kBlocksAtOnce = 2;

  struct Setup {
    const std::vector<models::BlockLayout>& blocks;
    plan::ShardShare share;
    // [elements] of each block, of the compute type; empty where it is not whole, or not of this process
    std::vector<device::TensorView> weights;
    WeightRooms::Fetch fetch;
    std::vector<Rank> ranks{};     // of the members
  };
  explicit WholeWeights(Setup setup);
  void connect_to(actor::Ref device) { device_ = std::move(device); }

 private:
  struct PartFetched {
    BlockIndex block;
    int member = -1;
    Status result;
  };
  struct Block {
    StepId complete{-1};
    std::vector<int> missing{};    // members whose parts are on their way
    StepId coming{-1};
    std::deque<WeightsWanted> waiting;
  };
  void started() override;
  void show_state();
  void written(WeightsWritten message);
  void wanted(WeightsWanted message);
  void fetched(PartFetched message);
  void fetch_next();
  void complete(Block& block);
  Block& of(BlockIndex block) { return blocks_[static_cast<std::size_t>(block.value)]; }

  const Setup setup_;
  actor::Ref device_;
  std::vector<Block> blocks_;
  std::deque<WeightsWritten> queue_;
  int open_ = 0;                   // blocks that are being fetched
  trace::Name weights_;
  std::vector<trace::Name> owners_;  // ranks of the members
};

}  // namespace troupe::actors
