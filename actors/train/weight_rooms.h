// The rooms of a stage in which gathered weights lie while passes compute with them (ZeRO-3).
//
// Acts:  WeightsWanted -> the block's parts are fetched from their owners into a free room, or the room that has them is shared; when they are
//        there -> OpenGate to the device loop. WeightsLeft, from the stream -> the room is free once nobody is in it; what lies in it stays
//        until the room is needed, for the next who wants that block of that step.
// Holds: the rooms; requests beyond them wait, first come first served. A pass asks in the order in which it computes and leaves a room before
//        it waits for the next but one, and whoever is in a room needs nobody else's: nothing waits in a circle. Other ranks of this machine take
//        weights out of a room too; the next gather into it waits while they do, which is for the link only (comm/slices/README.md).
// Says: which rank's part of a block is on its way, or that it waits for the device to leave a room.
// Fails: when a part cannot be fetched: its owner is gone. The cause names it.
// Invariants: never more gathered than there are rooms (WeightRoomsTest.ManyWantsShareFewRooms); a room changes its block only when nobody is in it;
//        the weights of another step are fetched anew (WeightRoomsTest.ANewStepIsFetchedAnew).
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "actors/plan/rooms.h"
#include "actors/plan/shard_memory.h"
#include "actors/train/device_loop.h"
#include "comm/slices/slices.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

// What a pass waits at. Opened once the weights are there.
class WeightsGate : public task::Gate {
 public:
  device::ConstTensorView flat;  // [elements of the block], until the room is left
  int room = -1;
};

struct WeightsWanted {
  BlockIndex block;
  StepId step;               // whose passes compute with them: after the update of the step before
  WeightsGate* gate = nullptr;  // outlives its opening
};
// What was enqueued with the weights has been computed.
struct WeightsLeft {
  int room = -1;
};

class WeightRooms : public actor::Actor {
 public:
  // Fetches the block's part that `member` owns, as the update of `step` left it, into `into`; the completion comes from any thread.
  using Fetch = std::function<void(BlockIndex block, int member, StepId step, std::span<std::byte> into, comm::Completion done)>;
  struct Setup {
    const std::vector<models::BlockLayout>& blocks;
    plan::ShardShare share;
    const plan::RoomMemory& memory;
    bool keeps = false;             // a room for each block: RoomShape::keeps_weights
    std::vector<BlockIndex> split;  // then: whose room is which
    Fetch fetch;
    std::vector<Rank> ranks{};      // of the members
  };
  explicit WeightRooms(Setup setup);
  void connect_to(actor::Ref device) { device_ = std::move(device); }

 private:
  struct PartFetched {
    int room = -1, member = -1;
    Status result;
  };
  struct Room {
    device::TensorView flat;       // as large as the room
    BlockIndex block{-1};
    StepId step{-1};
    int users = 0;
    std::vector<int> missing{};    // members whose parts are on their way
    std::int64_t left = 0;         // when, in calls
    std::vector<WeightsGate*> waiting;
  };
  void started() override;
  void show_state();
  void wanted(WeightsWanted message);
  void left(WeightsLeft message);
  void fetched(PartFetched message);
  void grant();
  Room* room_with(BlockIndex block, StepId step);
  Room* free_room(BlockIndex block);
  void gather(Room& room, BlockIndex block, StepId step);
  void enter(Room& room, WeightsGate* gate);
  device::ConstTensorView weights_in(const Room& room) const;

  const Setup setup_;
  actor::Ref device_;
  std::vector<Room> rooms_;
  std::deque<WeightsWanted> queue_;
  std::int64_t calls_ = 0;
  trace::Name weights_, device_name_;
  std::vector<trace::Name> owners_;  // ranks of the members
};

}  // namespace troupe::actors
