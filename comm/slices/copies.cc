#include "comm/slices/copies.h"

#include <functional>
#include <iterator>
#include <utility>

#include "runtime/base/check.h"

namespace troupe::comm {

void Copies::add(std::int64_t ticket, Copy copy) {
  by_place_.emplace(copy.bytes.data(), ticket);
  copies_.emplace(ticket, std::move(copy));
}

Copies::Copy* Copies::find(std::int64_t ticket) {
  const auto found = copies_.find(ticket);
  return found == copies_.end() || found->second.withdrawn ? nullptr : &found->second;
}

bool Copies::clear(std::span<const std::byte> bytes, const std::function<void(std::int64_t, SliceKey)>& each) {
  const std::less<> before;  // of pointers into different buffers too
  const std::byte* end = bytes.data() + bytes.size();
  auto at = by_place_.upper_bound(bytes.data());
  if (at != by_place_.begin()) --at;  // it may reach into them
  bool free = true;
  while (at != by_place_.end() && before(at->first, end)) {
    const std::int64_t ticket = at->second;
    Copy& copy = copies_.at(ticket);
    ++at;
    if (!before(bytes.data(), copy.bytes.data() + copy.bytes.size())) continue;
    TROUPE_CHECK(copy.complete) << "slice " << copy.slice.id << " of rank " << copy.slice.owner << " is still on its way into the place of another";
    if (!std::exchange(copy.withdrawn, true)) each(ticket, copy.slice);
    if (copy.taking > 0) {
      free = false;
    } else {
      remove(ticket);
    }
  }
  return free;
}

void Copies::remove(std::int64_t ticket) {
  const auto found = copies_.find(ticket);
  if (found == copies_.end()) return;
  by_place_.erase(found->second.bytes.data());
  copies_.erase(found);
}

bool Copies::taken(std::int64_t ticket) {
  const auto found = copies_.find(ticket);
  TROUPE_CHECK(found != copies_.end() && found->second.taking > 0) << "fetch " << ticket << " has no copy that is being taken";
  if (--found->second.taking > 0 || !found->second.withdrawn) return false;
  remove(ticket);
  return true;
}

void Copies::peer_down(Rank peer) {
  for (auto& [ticket, copy] : copies_) std::erase_if(copy.waiting, [peer](const Ask& ask) { return ask.from == peer; });
}

}  // namespace troupe::comm
