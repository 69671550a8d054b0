#include "comm/join/store_board.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {
namespace {

constexpr std::size_t kMissingNamedMost = 8;

// "rank 3", "ranks 1, 3", "ranks 1, 2, ... and 7 more": those of the world that are not `there`.
template <class Has>
std::string ranks_without(int world, const Has& has) {
  std::vector<int> missing;
  int more = 0;
  for (int rank = 0; rank < world; ++rank) {
    if (has(rank)) continue;
    if (missing.size() < kMissingNamedMost) missing.push_back(rank);
    else ++more;
  }
  std::string text = absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "));
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

}  // namespace

void StoreBoard::answer(Rank rank, std::uint32_t id, const Status& status, std::string_view text, std::int64_t number) const {
  FrameWriter writer(protocol::kAnswer);
  writer.u32(0).i32(static_cast<int>(status.code())).text(status.ok() ? std::string(text) : std::string(status.message()));
  send_({{rank, id}}, std::move(writer.i64(number)).finish());
}

bool StoreBoard::take(Rank rank, FrameReader& request, Deadline now) {
  const auto type = request.type();
  const std::uint32_t id = request.u32(), patience_ms = request.u32();
  const std::string key(request.text());
  const std::string value(type == protocol::kSet ? request.text() : std::string_view());
  const std::int64_t number = type == protocol::kAdd ? request.i64() : type == protocol::kBarrier ? request.i32() : 0;
  if (!request.ended_well() || type < protocol::kSet || type > protocol::kExchange) return false;
  give_up(rank);
  if (type != protocol::kExchange && (key.empty() || key.size() > protocol::kKeyBytesMost)) {
    answer(
        rank, id,
        absl::InvalidArgumentError(absl::StrCat("a key of ", key.size(), " bytes: allowed are 1 .. ", protocol::kKeyBytesMost)));
    return true;
  }
  Waiting waiting{type, id, now + std::chrono::milliseconds(patience_ms), key, static_cast<int>(number)};
  switch (type) {
    case protocol::kSet: set(rank, id, key, value); break;
    case protocol::kAdd: add(rank, id, key, number); break;
    case protocol::kBarrier: wait_at_barrier(rank, std::move(waiting)); break;
    case protocol::kExchange: exchange(rank, std::move(waiting), key); break;
    default:
      if (const auto found = values_.find(key); found != values_.end()) answer(rank, id, ok(), found->second);
      else waiting_[rank.value] = std::move(waiting);
  }
  return true;
}

void StoreBoard::give_up(Rank rank) {
  const auto found = waiting_.find(rank.value);
  if (found == waiting_.end()) return;
  if (found->second.type == protocol::kExchange) {
    addresses_[static_cast<std::size_t>(rank.value)].reset();
    --addresses_known_;
  }
  waiting_.erase(found);
}

void StoreBoard::give_up_all() {
  while (!waiting_.empty()) give_up(Rank{waiting_.begin()->first});
}

Status StoreBoard::make_room(std::size_t bytes) {
  if (stored_bytes_ + bytes > protocol::kStoreBytesMost) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the store holds ", stored_bytes_, " bytes and takes no more than ", protocol::kStoreBytesMost));
  }
  stored_bytes_ += bytes;
  return ok();
}

void StoreBoard::set(Rank rank, std::uint32_t id, const std::string& key, const std::string& value) {
  if (value.size() > protocol::kValueBytesMost) return answer(rank, id, absl::InvalidArgumentError("the value is too long"));
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  stored_bytes_ -= before;
  if (const Status status = make_room(key.size() + value.size()); !status.ok()) {
    stored_bytes_ += before;  // the old value stays
    return answer(rank, id, status);
  }
  values_[key] = value;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto& [waiter, waiting] = *at;
    if (waiting.type != protocol::kGet || waiting.key != key) {
      ++at;
      continue;
    }
    answer(Rank{waiter}, waiting.id, ok(), value);
    at = waiting_.erase(at);
  }
  answer(rank, id, ok());
}

void StoreBoard::add(Rank rank, std::uint32_t id, const std::string& key, std::int64_t n) {
  if (!counters_.contains(key)) {
    if (const Status status = make_room(key.size()); !status.ok()) return answer(rank, id, status);
  }
  auto& counter = counters_[key];
  counter = static_cast<std::int64_t>(static_cast<std::uint64_t>(counter) + static_cast<std::uint64_t>(n));  // wraps
  answer(rank, id, ok(), {}, counter);
}

std::vector<int> StoreBoard::ranks_at(const std::string& barrier) const {
  std::vector<int> ranks;
  for (const auto& [rank, waiting] : waiting_) {
    if (waiting.type == protocol::kBarrier && waiting.key == barrier) ranks.push_back(rank);
  }
  return ranks;
}

void StoreBoard::wait_at_barrier(Rank rank, Waiting waiting) {
  const std::string name = waiting.key;
  const int count = waiting.count;
  waiting_[rank.value] = std::move(waiting);
  const auto there = ranks_at(name);
  Status status;
  if (count < 1 || count > world_)
    status = absl::InvalidArgumentError(absl::StrCat("barrier '", name, "' of ", count, " ranks in a job of ", world_));
  for (const int other : there) {
    if (waiting_[other].count == count) continue;
    status = absl::InvalidArgumentError(absl::StrCat("barrier '", name, "': rank ", rank.value, " waits for ", count,
                                                     " ranks, rank ", other, " for ", waiting_[other].count));
  }
  if (status.ok() && there.size() < static_cast<std::size_t>(count)) return;
  for (const int other : there) {
    answer(Rank{other}, waiting_[other].id, status);
    waiting_.erase(other);
  }
}

void StoreBoard::exchange(Rank rank, Waiting waiting, const std::string& address) {
  if (exchanged_)
    return answer(rank, waiting.id, absl::FailedPreconditionError("the ranks' addresses were exchanged already: once in a job"));
  if (address.size() > protocol::kAddressBytesMost)
    return answer(rank, waiting.id, absl::InvalidArgumentError("the address is too long"));
  addresses_[static_cast<std::size_t>(rank.value)] = address;
  came_[static_cast<std::size_t>(rank.value)] = true;
  waiting_[rank.value] = std::move(waiting);
  if (++addresses_known_ < world_) return;
  exchanged_ = true;
  send_addresses();
}

// To all, who all wait: the same texts, in as many frames as they need.
void StoreBoard::send_addresses() {
  std::vector<std::pair<std::uint32_t, std::string>> parts;  // how many, and their texts
  for (const auto& address : addresses_) {
    if (parts.empty() || parts.back().second.size() + address->size() + 64 > kFrameBytesMost) parts.push_back({0, ""});
    auto& [count, texts] = parts.back();
    ++count;
    FrameWriter one(0);
    texts.append(std::move(one.text(*address)).finish(), 5);
  }
  std::vector<To> all;
  for (const auto& [rank, waiting] : waiting_) all.push_back({Rank{rank}, waiting.id});
  for (const auto& [count, texts] : parts) send_(all, std::move(FrameWriter(protocol::kAddresses).u32(0).u32(count).raw(texts)).finish());
  waiting_.clear();
}

std::vector<Rank> StoreBoard::at_exchange() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, waiting] : waiting_) {
    if (waiting.type == protocol::kExchange) ranks.push_back(Rank{rank});
  }
  return ranks;
}

Deadline StoreBoard::next_deadline() const {
  Deadline next = Deadline::max();
  for (const auto& [rank, waiting] : waiting_) next = std::min(next, waiting.deadline);
  return next;
}

void StoreBoard::expire(Deadline now) {
  std::vector<int> late;
  for (const auto& [rank, waiting] : waiting_) {
    if (waiting.deadline <= now) late.push_back(rank);
  }
  for (const int rank : late) {
    const std::uint32_t id = waiting_[rank].id;
    const std::string missing = what_misses(waiting_[rank]);
    give_up(Rank{rank});
    answer(Rank{rank}, id, absl::DeadlineExceededError(missing));
  }
}

std::string StoreBoard::what_misses(const Waiting& waiting) const {
  if (waiting.type == protocol::kGet) return absl::StrCat("nobody has set '", waiting.key, "'");
  if (waiting.type == protocol::kExchange) {
    // Those whose own time is over did come; they are named only if there is nobody else.
    const bool all_came = std::ranges::find(came_, false) == came_.end();
    const auto known = [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      return all_came ? addresses_[at].has_value() : came_[at];
    };
    return absl::StrCat("waited for the address of ", ranks_without(world_, known), " of ", world_);
  }
  const auto there = ranks_at(waiting.key);
  std::string text = absl::StrCat("barrier '", waiting.key, "': ", there.size(), " of ", waiting.count, " ranks came");
  if (waiting.count == world_)
    absl::StrAppend(&text, "; not ", ranks_without(world_, [&](int rank) { return std::ranges::binary_search(there, rank); }));
  return text;
}

}  // namespace troupe::comm
