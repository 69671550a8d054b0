#include "actors/train/gradient_rooms.h"

#include <algorithm>

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
  kind.queue.push_back(message.gate);
  grant(kind);
}

void GradientRooms::left(GradientRoomLeft message) {
  Kind& kind = of(message.kind);
  TROUPE_CHECK(std::find(kind.free.begin(), kind.free.end(), message.room) == kind.free.end()) << name() << ": room " << message.room << " was left twice";
  kind.free.push_back(message.room);
  grant(kind);
}

void GradientRooms::grant(Kind& kind) {
  while (!kind.queue.empty() && !kind.free.empty()) {
    GradientGate* gate = kind.queue.front();
    kind.queue.pop_front();
    gate->room = kind.free.back();
    kind.free.pop_back();
    gate->flat = kind.rooms[static_cast<std::size_t>(gate->room)];
    send(device_, OpenGate{gate});
  }
  std::int64_t waiting = 0;
  for (const Kind& each : kinds_) waiting += static_cast<std::int64_t>(each.queue.size());
  set_state(waiting > 0 ? trace::State::kWaitingForCollective : trace::State::kIdle, {}, waiting);
}

}  // namespace troupe::actors
