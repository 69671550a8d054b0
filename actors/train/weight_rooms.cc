#include "actors/train/weight_rooms.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/first_cause.h"

namespace troupe::actors {

WeightRooms::WeightRooms(Setup setup) : setup_(std::move(setup)) {
  on(&WeightRooms::wanted);
  on(&WeightRooms::left);
  on(&WeightRooms::fetched);
  for (const auto& flat : setup_.memory.weights) rooms_.push_back({.flat = flat.view()});
}

void WeightRooms::started() {
  weights_ = name_for("weights");
  device_name_ = name_for(device_.name());
  for (const Rank rank : setup_.ranks) owners_.push_back(name_for(absl::StrCat("@", rank.value)));
}

void WeightRooms::wanted(WeightsWanted message) {
  queue_.push_back(message);
  grant();
}

void WeightRooms::left(WeightsLeft message) {
  Room& room = rooms_.at(static_cast<std::size_t>(message.room));
  TROUPE_CHECK(room.users > 0) << name() << ": room " << message.room << " was left by one who was not in it";
  --room.users;
  room.left = ++calls_;
  grant();
}

void WeightRooms::fetched(PartFetched message) {
  Room& room = rooms_.at(static_cast<std::size_t>(message.room));
  if (!message.result.ok()) {
    fail(reworded(message.result, absl::StrCat("the weights of block ", room.block.value, " cannot be gathered: ",
                                               std::string(message.result.message()))));
    return;
  }
  std::erase(room.missing, message.member);
  if (!room.missing.empty()) return show_state();
  for (WeightsGate* gate : room.waiting) send(device_, OpenGate{gate});
  room.waiting.clear();
  grant();
}

void WeightRooms::grant() {
  while (!queue_.empty()) {
    const WeightsWanted& next = queue_.front();
    Room* room = room_with(next.block, next.step);
    if (!room) {
      room = free_room(next.block);
      if (!room) break;
      gather(*room, next.block, next.step);
    }
    enter(*room, next.gate);
    queue_.pop_front();
  }
  show_state();
}

void WeightRooms::show_state() {
  for (const Room& room : rooms_) {
    if (room.missing.empty()) continue;
    const auto far = std::ranges::find_if(room.missing, [this](int member) { return member != setup_.share.member(); });  // the own part comes by itself
    const auto owner = static_cast<std::size_t>(far != room.missing.end() ? *far : room.missing.front());
    return set_state(trace::State::kWaitingForInput, weights_, room.block.value, owner < owners_.size() ? owners_[owner] : trace::Name());
  }
  if (queue_.empty()) {
    set_state(trace::State::kIdle);
  } else {
    set_state(trace::State::kReady, {}, -1, device_name_);  // what computes with the rooms' weights
  }
}

WeightRooms::Room* WeightRooms::room_with(BlockIndex block, StepId step) {
  const auto found = std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& room) { return room.block == block && room.step == step; });
  return found == rooms_.end() ? nullptr : &*found;
}

// The one whose weights were used longest ago.
WeightRooms::Room* WeightRooms::free_room(BlockIndex block) {
  Room* best = nullptr;
  for (std::size_t i = 0; i < rooms_.size(); ++i) {
    Room& room = rooms_[i];
    if (room.users > 0 || !room.missing.empty() || (setup_.keeps && setup_.split[i] != block)) continue;
    if (!best || room.left < best->left) best = &room;
  }
  return best;
}

void WeightRooms::gather(Room& room, BlockIndex block, StepId step) {
  room.block = block;
  room.step = step;
  const int index = static_cast<int>(&room - rooms_.data());
  const auto parts = setup_.share.parts(setup_.blocks[static_cast<std::size_t>(block.value)].elements);
  for (int member = 0; member < parts.members(); ++member) {
    if (parts.size(member) > 0) room.missing.push_back(member);
  }
  for (int member = 0; member < parts.members(); ++member) {
    if (parts.size(member) == 0) continue;
    const auto part = room.flat.rows(parts.begin(member), parts.end(member));
    setup_.fetch(block, member, StepId(step.value - 1), {static_cast<std::byte*>(part.raw()), static_cast<std::size_t>(part.bytes())},
                 [self = self(), index, member](Status result) { self.send(PartFetched{index, member, std::move(result)}); });
  }
}

void WeightRooms::enter(Room& room, WeightsGate* gate) {
  ++room.users;
  gate->room = static_cast<int>(&room - rooms_.data());
  gate->flat = weights_in(room);
  if (!room.missing.empty()) {
    room.waiting.push_back(gate);
  } else {
    send(device_, OpenGate{gate});
  }
}

device::ConstTensorView WeightRooms::weights_in(const Room& room) const {
  return room.flat.rows(0, setup_.blocks[static_cast<std::size_t>(room.block.value)].elements);
}

}  // namespace troupe::actors
