#include "comm/collective/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::comm {

using device::DType;

const char* name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce: return "all-reduce";
    case CollectiveKind::kReduceScatter: return "reduce-scatter";
    case CollectiveKind::kAllGather: return "all-gather";
    case CollectiveKind::kBroadcast: return "broadcast";
    case CollectiveKind::kAllToAll: return "all-to-all";
    case CollectiveKind::kBarrier: return "barrier";
  }
  return "?";
}

Parts Parts::equal(std::int64_t elements, int members, std::int64_t grain) {
  Parts parts;
  const std::int64_t grains = (elements + grain - 1) / grain;
  for (int i = 1; i <= members; ++i) parts.boundaries.push_back(std::min(elements, grains * i / members * grain));
  return parts;
}

Operation::Operation(Transport& transport, const Group& group, const Layout& layout, OperationId id, Collective collective,
                     Completion done, Scratch scratch, const std::function<void()>& changed, std::atomic<std::int64_t>& between_nodes_bytes)
    : transport_(transport),
      group_(group),
      layout_(layout),
      id_(id),
      collective_(std::move(collective)),
      done_(std::move(done)),
      changed_(changed),
      size_(device::size_bytes(collective_.type)),
      small_(collective_.kind == CollectiveKind::kAllReduce && layout.nodes() == 1 && collective_.parts.elements() * size_ <= kSmallBytes),
      between_nodes_bytes_(between_nodes_bytes),
      outgoing_(static_cast<std::size_t>(group.size())),
      heard_(static_cast<std::size_t>(group.size())),
      folding_(std::move(scratch)),
      waiting_(static_cast<std::size_t>(group.size())) {
  TROUPE_CHECK(collective_.kind == CollectiveKind::kBarrier || collective_.parts.members() == group.size())
      << describe() << ": cut into " << collective_.parts.members() << " parts for " << group.size() << " members";
  TROUPE_CHECK(!reduces() || collective_.type == DType::kF32 || collective_.type == DType::kBF16)
      << describe() << ": sums are of fp32 or bf16";
  TROUPE_CHECK(reduces() || !collective_.sparse) << describe() << ": only sums are sparse";
  TROUPE_CHECK(collective_.kind != CollectiveKind::kAllToAll || collective_.from_parts.members() == group.size())
      << describe() << ": what is sent is cut into " << collective_.from_parts.members() << " parts for " << group.size() << " members";
}

std::string Operation::describe() const {
  return absl::StrCat(name(collective_.kind), " ", id_.value, " of group ", group_.id.value, " (", collective_.what, ", ",
                      collective_.parts.elements(), " x ", std::string(device::name(collective_.type)), ")");
}

std::vector<Rank> Operation::missing() const {
  const auto& parts = collective_.parts;
  std::vector<Rank> missing;
  for (int member = 0; member < group_.size(); ++member) {
    if (member == group_.self) continue;
    const bool sends = collective_.kind == CollectiveKind::kBarrier ? true
                       : reduces()                                  ? (small_ ? parts.elements() : parts.size(group_.self)) > 0
                                                                    : parts.size(member) > 0;
    const auto index = static_cast<std::size_t>(member);
    if ((sends && !heard_[index]) || !outgoing_[index].empty()) missing.push_back(group_.members[index]);
  }
  return missing;
}

void Operation::start() {
  const auto& parts = collective_.parts;
  const int self = group_.self;
  switch (collective_.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      for (const int mate : layout_.members(layout_.node_of(self))) {
        if (mate != self) queue_addends(mate);
      }
      break;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast: hand_on(self, parts.begin(self), parts.end(self)); break;
    case CollectiveKind::kAllToAll: {
      const auto& from = collective_.from_parts;
      for (int member = 0; member < group_.size(); ++member) {
        if (member != self) queue(member, Phase::kResult, collective_.from + from.begin(member) * size_, 0, from.size(member));
      }
      TROUPE_CHECK(from.size(self) == parts.size(self)) << describe() << ": one's own part differs from itself";
      if (from.size(self) > 0) {
        std::memcpy(at(parts.begin(self)), collective_.from + from.begin(self) * size_, static_cast<std::size_t>(from.size(self) * size_));
      }
      break;
    }
    case CollectiveKind::kBarrier:
      for (int member = 0; member < group_.size(); ++member) {
        if (member != self) send_one(member, Phase::kArrived, nullptr, 0, 0, 0);
      }
      break;
  }
  if (!reduces()) return;
  auto pieces = small_ ? std::vector<Folding::Piece>{{self, 0, parts.elements()}} : Folding::pieces(layout_, parts, self, chunk_elements());
  if (small_ && parts.elements() == 0) pieces.clear();
  folding_ = Folding(layout_, self, collective_, std::move(pieces), small_, folding_.give_back());
  fold_more();
}

bool Operation::complete() const {
  if (collective_.kind == CollectiveKind::kBarrier) return arrived_ == group_.size() - 1;
  if (!folding_.ended() || results_received_ < expected_results()) return false;
  return std::all_of(outgoing_.begin(), outgoing_.end(), [](const auto& left) { return left.empty(); });
}

std::int64_t Operation::expected_results() const {
  const auto& parts = collective_.parts;
  switch (collective_.kind) {
    case CollectiveKind::kAllReduce: return small_ ? 0 : parts.elements() - parts.size(group_.self);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kBroadcast: return parts.elements() - parts.size(group_.self);
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kBarrier: return 0;
  }
  return 0;
}

// --- sending ---

CollectiveHeader Operation::header(int to, Phase phase, std::int64_t offset, std::int64_t count) const {
  const std::int64_t elements =
      collective_.kind == CollectiveKind::kAllToAll ? collective_.from_parts.size(to) : collective_.parts.elements();
  return {.group = group_.id, .operation = id_, .kind = collective_.kind, .type = collective_.type, .phase = phase,
          .from = group_.self, .elements = elements, .offset = offset, .count = count, .sparse = collective_.sparse};
}

// In the order in which `to` folds them.
void Operation::queue_addends(int to) {
  const auto& parts = collective_.parts;
  if (small_) return queue(to, Phase::kAddend, collective_.data, 0, parts.elements());
  if (layout_.nodes() == 1) return queue(to, Phase::kAddend, at(parts.begin(to)), parts.begin(to), parts.end(to));
  for (const auto& piece : Folding::pieces(layout_, parts, to, chunk_elements())) {
    queue(to, Phase::kAddend, at(piece.begin), piece.begin, piece.end);
  }
}

void Operation::queue(int to, Phase phase, const std::byte* bytes, std::int64_t begin, std::int64_t end,
                      std::shared_ptr<std::vector<std::byte>> kept) {
  if (begin == end) return;
  if (kept != nullptr) ++kept_;
  outgoing_[static_cast<std::size_t>(to)].push_back(
      {.phase = phase, .bytes = bytes, .begin = begin, .end = end, .next = begin, .kept = std::move(kept), .number = ++outgoings_});
  send_more(to);
}

// What is as it shall be here, to those who have it from here.
void Operation::hand_on(int part, std::int64_t begin, std::int64_t end) {
  for (const int to : layout_.result_to(collective_.kind, part, group_.self)) queue(to, Phase::kResult, at(begin), begin, end);
}

void Operation::send_more(int to) {
  auto& left = outgoing_[static_cast<std::size_t>(to)];
  int in_flight = 0;
  for (const auto& part : left) in_flight += part.in_flight;
  for (auto& part : left) {
    while (part.next < part.end && in_flight < kWindow) {
      const std::int64_t count = std::min(part.end - part.next, chunk_elements());
      const std::int64_t offset = std::exchange(part.next, part.next + count);
      ++part.in_flight;
      ++in_flight;
      send_one(to, part.phase, part.bytes + (offset - part.begin) * size_, offset, count, part.number);
    }
    if (in_flight >= kWindow) break;
  }
}

void Operation::send_one(int to, Phase phase, const std::byte* bulk, std::int64_t offset, std::int64_t count, std::int64_t number) {
  ++under_way_;
  auto head = header(to, phase, offset, count);
  std::span<const std::byte> bytes(bulk, static_cast<std::size_t>(count * size_));
  std::vector<std::byte> packed;
  if (collective_.sparse) {
    const auto all = static_cast<std::int64_t>(bytes.size());
    head.blocks = blocks_with_something(bulk, all);
    if (const std::int64_t left = packed_bytes(*head.blocks, all); left < all) {
      packed.resize(static_cast<std::size_t>(left));
      pack(packed.data(), bulk, all, *head.blocks);
      bytes = packed;
    }
  }
  if (!layout_.share_node(to, group_.self)) between_nodes_bytes_.fetch_add(static_cast<std::int64_t>(bytes.size()), std::memory_order_relaxed);
  transport_.send({.to = group_.members[static_cast<std::size_t>(to)],
                   .channel = Channel::kCollectives,
                   .lane = count > 0 ? Lane::kBulk : Lane::kControl,
                   .header = encode(head),
                   .bulk = bytes,
                   .sent = [this, to, count, number, packed = std::move(packed)](Status status) {
                     --under_way_;
                     if (count > 0) sent_one(to, number);
                     if (absl::IsCancelled(status)) {
                       // The receiver's group has failed; it, or who told it, tells why.
                     } else if (!status.ok()) {
                       fail(status);
                     } else if (failure_.ok()) {
                       send_more(to);
                       fold_more();  // a small sum may wait for its own addend to have left, one of a node for those before it
                     }
                     changed_();
                   }});
}

void Operation::sent_one(int to, std::int64_t number) {
  auto& left = outgoing_[static_cast<std::size_t>(to)];
  const auto part = std::find_if(left.begin(), left.end(), [number](const Outgoing& out) { return out.number == number; });
  if (--part->in_flight > 0 || part->next < part->end) return;
  if (part->kept != nullptr) --kept_;
  left.erase(part);
}

// --- the end ---

void Operation::fail(const Status& cause) {
  if (!failure_.ok()) return;
  failure_ = cause;
  for (auto& waiting : waiting_) waiting.clear();
}

Operation::Scratch Operation::finish() {
  TROUPE_CHECK(ended()) << describe() << " is not at its end";
  if (done_) std::exchange(done_, nullptr)(failure_);
  return folding_.give_back();
}

}  // namespace troupe::comm
