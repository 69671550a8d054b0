#include "comm/slices/register.h"

#include <algorithm>

namespace troupe::comm {

std::optional<SliceRegister::Fetch> SliceRegister::source(SliceKey slice, std::int64_t version, Fetch asker) {
  Entry& entry = slices_[slice];
  if (version < entry.version) return std::nullopt;  // the owner says why it is too late
  if (version > entry.version) entry = {.version = version, .fetches = {}};
  auto found = std::find(entry.fetches.begin(), entry.fetches.end(), asker);
  if (found == entry.fetches.end()) found = entry.fetches.insert(found, asker);
  const auto before = found - entry.fetches.begin();
  if (before == 0) return std::nullopt;
  return entry.fetches[static_cast<std::size_t>((before - 1) / 2)];
}

void SliceRegister::withdraw(SliceKey slice, Fetch fetch) {
  if (const auto found = slices_.find(slice); found != slices_.end()) std::erase(found->second.fetches, fetch);
}

void SliceRegister::peer_down(Rank peer) {
  for (auto& [slice, entry] : slices_) std::erase_if(entry.fetches, [peer](const Fetch& fetch) { return fetch.rank == peer; });
}

}  // namespace troupe::comm
