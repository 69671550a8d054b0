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
          .from = group_.self, .elements = elements, .offset = offset, .count = count};
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
  if (!layout_.share_node(to, group_.self)) between_nodes_bytes_.fetch_add(count * size_, std::memory_order_relaxed);
  const auto head = encode(header(to, phase, offset, count));
  transport_.send({.to = group_.members[static_cast<std::size_t>(to)],
                   .channel = Channel::kCollectives,
                   .lane = count > 0 ? Lane::kBulk : Lane::kControl,
                   .header = head,
                   .bulk = {bulk, static_cast<std::size_t>(count * size_)},
                   .sent = [this, to, count, number](Status status) {
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

// --- receiving ---

Status Operation::arrive(const CollectiveHeader& h, Arrival arrival) {
  const auto& parts = collective_.parts;
  const std::int64_t expected = collective_.kind == CollectiveKind::kAllToAll ? parts.size(h.from) : parts.elements();
  if (h.kind != collective_.kind || h.type != collective_.type || h.elements != expected) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", arrival.from().value, " has ", name(h.kind), " of ", h.elements, " x ", std::string(device::name(h.type)), " where rank ",
        group_.members[static_cast<std::size_t>(group_.self)].value, " has ", name(collective_.kind), " of ", expected, " x ",
        std::string(device::name(collective_.type)), ": operation ", id_.value, " of group ", group_.id.value, " (", collective_.what,
        "); all members must call the same"));
  }
  const auto out_of_turn = [&] {
    return absl::FailedPreconditionError(absl::StrCat("rank ", arrival.from().value, " sent elements ", h.offset, " + ", h.count,
                                                      " out of turn in ", describe()));
  };
  heard_[static_cast<std::size_t>(h.from)] = true;
  if (arrival.bulk_bytes() != h.count * size_) return out_of_turn();
  switch (h.phase) {
    case Phase::kArrived:
      ++arrived_;
      return ok();
    case Phase::kAddend:
    case Phase::kNodeSum:
      if (!reduces() || h.count == 0 || layout_.share_node(h.from, group_.self) != (h.phase == Phase::kAddend)) return out_of_turn();
      waiting_[static_cast<std::size_t>(h.from)].push_back({h, std::move(arrival)});
      fold_more();
      return ok();
    case Phase::kResult: {
      const int part = part_of(h);
      if (part < 0) return out_of_turn();
      take_result(h, part, std::move(arrival));
      return ok();
    }
    case Phase::kFailed: break;
  }
  return out_of_turn();
}

// The part that a result belongs to; -1: its sender has none such for us.
int Operation::part_of(const CollectiveHeader& h) const {
  const auto& parts = collective_.parts;
  if (h.count == 0) return -1;
  if (collective_.kind == CollectiveKind::kAllToAll) return h.count <= parts.size(h.from) - h.offset ? h.from : -1;
  const auto after = std::upper_bound(parts.boundaries.begin(), parts.boundaries.end(), h.offset);
  const int part = static_cast<int>(after - parts.boundaries.begin()) - 1;
  if (after == parts.boundaries.end() || h.count > *after - h.offset || part == group_.self) return -1;
  return layout_.result_from(collective_.kind, part, group_.self) == h.from ? part : -1;
}

void Operation::take_result(const CollectiveHeader& h, int part, Arrival arrival) {
  const std::int64_t base = collective_.kind == CollectiveKind::kAllToAll ? collective_.parts.begin(h.from) : 0;
  ++under_way_;
  arrival.fetch(at(base + h.offset), [this, part, begin = h.offset, count = h.count](Status status) {
    --under_way_;
    results_received_ += count;
    if (!status.ok()) {
      fail(status);
    } else if (failure_.ok() && collective_.kind != CollectiveKind::kAllToAll) {
      hand_on(part, begin, begin + count);
    }
    changed_();
  });
}

// --- folding ---

void Operation::fold_more() {
  while (failure_.ok() && !fetching_ && !folding_.ended()) {
    const int from = folding_.source();
    if (from < 0) {
      if (small_ && under_way_ > 0) return;  // our addend, which the sum will overwrite, is still on its way
      if (kept_ >= folding_.for_others() + kWindow) return;
      piece_folded();
      continue;
    }
    if (from == group_.self) {
      folding_.add();
      continue;
    }
    auto& waiting = waiting_[static_cast<std::size_t>(from)];
    if (waiting.empty()) return;
    Waiting next = std::move(waiting.front());
    waiting.erase(waiting.begin());
    const auto& piece = folding_.piece();
    if (next.header.offset != piece.begin || next.header.count != piece.count()) {
      fail(absl::FailedPreconditionError(absl::StrCat("rank ", next.arrival.from().value, " sent elements ", next.header.offset, " + ",
                                                      next.header.count, " where ", piece.begin, " + ", piece.count(), " were due: ", describe())));
      return;
    }
    fetching_ = true;
    ++under_way_;
    next.arrival.fetch(folding_.place(), [this](Status status) {
      --under_way_;
      fetching_ = false;
      if (!status.ok()) {
        fail(status);
      } else if (failure_.ok()) {
        folding_.add();
        fold_more();
      }
      changed_();
    });
  }
}

void Operation::piece_folded() {
  auto folded = folding_.take();
  const auto& piece = folded.piece;
  if (small_) return;
  if (piece.part != group_.self) {
    queue(piece.part, Phase::kNodeSum, folded.bytes, piece.begin, piece.end, std::move(folded.kept));
  } else if (collective_.kind == CollectiveKind::kAllReduce) {
    hand_on(piece.part, piece.begin, piece.end);
  }
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
