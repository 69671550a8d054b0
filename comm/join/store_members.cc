#include "comm/join/store_members.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {

StoreMembers::Member* StoreMembers::find(Rank rank) {
  const auto found = ranks_.find(rank.value);
  return found == ranks_.end() ? nullptr : &found->second;
}

void StoreMembers::leave(Rank rank) {
  ranks_.at(rank.value).left = true;
  left_.insert(rank.value);
}

StoreMembers::LostRelay StoreMembers::remove_relay(Caller& relay) {
  relays_.erase(&relay);
  LostRelay lost{.in_order = relay.hello.rank.value < 0 || left_.contains(relay.hello.rank.value)};
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    const auto& [rank, member] = *at;
    if (member.by != &relay) {
      ++at;
      continue;
    }
    lost.ranks.push_back(rank);
    lost.in_order &= member.left;
    at = ranks_.erase(at);
  }
  return lost;
}

int StoreMembers::connections() const {
  std::set<const Caller*> connected(relays_.begin(), relays_.end());
  for (const auto& [rank, member] : ranks_) connected.insert(member.by);
  return static_cast<int>(connected.size());
}

std::string StoreMembers::text_of(const Caller& caller) {
  return caller.relay() ? absl::StrCat("host ", caller.hello.host, " at ", caller.address) : caller.address;
}

void StoreMembers::reply(Caller& by, Rank rank, const std::string& frame) { send(by, {{rank}}, frame); }

void StoreMembers::turn_away(Caller& by, Rank rank, absl::StatusCode code, const std::string& why) {
  if (!by.relay()) return door_.turn_away(by, code, why);
  reply(by, rank, std::move(FrameWriter(protocol::kRefused).i32(static_cast<int>(code)).text(why)).finish());
}

void StoreMembers::deliver(const std::vector<To>& all, const std::string& frame) {
  std::map<Caller*, std::vector<To>> by;
  for (const auto& to : all) {
    if (const Member* member = find(to.rank)) by[member->by].push_back(to);
  }
  for (const auto& [caller, to] : by) send(*caller, to, frame);
}

void StoreMembers::tell_all(const std::string& frame) {
  const auto bytes = std::make_shared<const std::string>(frame);
  for (Caller* relay : relays_) door_.send(*relay, bytes);
  for (const auto& [rank, member] : ranks_) {
    if (!member.by->relay() && !member.left) door_.send(*member.by, bytes);
  }
}

void StoreMembers::send(Caller& by, const std::vector<To>& to, const std::string& frame) {
  if (!by.relay()) {
    const auto type = static_cast<std::uint8_t>(frame[protocol::kLengthBytes]);
    return door_.send(by, std::make_shared<const std::string>(protocol::has_id(type) ? protocol::with_id(frame, to[0].id) : frame));
  }
  FrameWriter writer(protocol::kDeliver);
  writer.u32(static_cast<std::uint32_t>(to.size()));
  for (const auto& each : to) writer.i32(each.rank.value).u32(each.id);
  door_.send(by, writer.raw(std::string_view(frame).substr(protocol::kLengthBytes)));
}

}  // namespace troupe::comm
