#include "actors/train/gradient_rooms.h"

#include <algorithm>

#include "actors/protocol.h"

namespace troupe::actors {

GradientRooms::GradientRooms(const plan::RoomMemory& memory) {
  on(&GradientRooms::wanted);
  on(&GradientRooms::left);
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    for (const auto& flat : memory.gradients[kind]) {
      kinds_[kind].free.push_back(static_cast<int>(kinds_[kind].rooms.size()));
      kinds_[kind].rooms.push_back(flat.view());
    }
  }
}

void GradientRooms::wanted(GradientRoomWanted message) {
  Kind& kind = of(message.kind);
  TROUPE_CHECK(!kind.rooms.empty()) << name() << " has no room of that kind";
  message.gate->kind = message.kind;
  kind.queue.push_back(message);
  grant(kind);
}

void GradientRooms::left(GradientRoomLeft message) {
  Kind& kind = of(message.kind);
  TROUPE_CHECK(std::find(kind.free.begin(), kind.free.end(), message.room) == kind.free.end()) << name() << ": room " << message.room << " was left twice";
  kind.free.push_back(message.room);
  std::erase_if(kind.given, [&message](const auto& given) { return given.first == message.room; });
  grant(kind);
}

void GradientRooms::grant(Kind& kind) {
  while (!kind.queue.empty() && !kind.free.empty()) {
    const auto [of, block, gate] = kind.queue.front();
    kind.queue.pop_front();
    gate->room = kind.free.back();
    kind.free.pop_back();
    kind.given.emplace_back(gate->room, block);
    gate->flat = kind.rooms[static_cast<std::size_t>(gate->room)];
    send(device_, OpenGate{gate});
  }
  show_state();
}

void GradientRooms::show_state() {
  for (const Kind& kind : kinds_) {
    if (kind.queue.empty()) continue;
    const BlockIndex block = kind.given.front().second;
    const auto [shard, fresh] = shards_.try_emplace(block);
    if (fresh) shard->second = name_for(shard_name(block));
    return set_state(trace::State::kWaitingForInput, room_, static_cast<std::int64_t>(kind.queue.size()), shard->second);
  }
  set_state(trace::State::kIdle);
}

}  // namespace troupe::actors
