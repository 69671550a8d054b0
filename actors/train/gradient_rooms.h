// The rooms of a stage in which a micro-batch's gradient of a block lies until it is reduced over the replicas and added to its owners' parts
// (ZeRO-2 and 3).
//
// Acts:  GradientRoomWanted -> a free room of that kind, first come first served -> OpenGate to the device loop.
//        GradientRoomLeft -> it is free.
// Holds: the rooms. All passes of a stage ask in one order, the same on all replicas (plan/rooms.h), and a room is left when all replicas have
//        reduced what was in it: the slowest replica always finds one.
// Says: while somebody waits for a room, which shard has the one that was given out first.
// Invariants: as many in use as there are (GradientRoomsTest.HandsOutEachRoomOnce).
#pragma once

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "actors/plan/rooms.h"
#include "actors/train/device_loop.h"
#include "runtime/actor/actor.h"

namespace troupe::actors {

class GradientGate : public task::Gate {
 public:
  plan::GradientRoom kind = plan::GradientRoom::kLayer;
  int room = -1;
  device::TensorView flat;       // as large as the room; holds what the last one left in it
};

struct GradientRoomWanted {
  plan::GradientRoom kind = plan::GradientRoom::kLayer;
  BlockIndex block;
  GradientGate* gate = nullptr;  // outlives its opening
};
struct GradientRoomLeft {
  plan::GradientRoom kind = plan::GradientRoom::kLayer;
  int room = -1;
};

// From a stage to a block's shard: a micro-batch's gradient is in a room, on the device. The shard reduces it over the replicas, adds its own
// part to its sum, and leaves the room.
struct GradientInRoom {
  StepId step;
  MicroBatchId micro_batch;
  plan::GradientUse use = plan::GradientUse::kBlock;
  bool last = false;             // of the step, for this use
  plan::GradientRange range;     // of the block
  device::TensorView flat;       // [range]
  GradientRoomLeft room;
  actor::Ref rooms;              // who hears that it was left
};

class GradientRooms : public actor::Actor {
 public:
  explicit GradientRooms(const plan::RoomMemory& memory);
  void connect_to(actor::Ref device) { device_ = std::move(device); }

 private:
  struct Kind {
    std::vector<device::TensorView> rooms;
    std::vector<int> free;
    std::deque<GradientRoomWanted> queue;
    std::deque<std::pair<int, BlockIndex>> given;  // rooms, in their order
  };
  void started() override { room_ = name_for("room"); }
  void wanted(GradientRoomWanted message);
  void left(GradientRoomLeft message);
  void grant(Kind& kind);
  void show_state();
  Kind& of(plan::GradientRoom kind) { return kinds_[static_cast<std::size_t>(kind)]; }

  actor::Ref device_;
  std::array<Kind, plan::kGradientRooms> kinds_;
  trace::Name room_;
  std::map<BlockIndex, trace::Name> shards_;  // of the blocks whose gradients have come; each is made once
};

}  // namespace troupe::actors
