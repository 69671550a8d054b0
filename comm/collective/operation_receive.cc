// What comes to an operation, and the sums of it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/collective/operation.h"

namespace troupe::comm {

using device::DType;

Status Operation::arrive(const CollectiveHeader& h, Arrival arrival) {
  const auto& parts = collective_.parts;
  const std::int64_t expected = collective_.kind == CollectiveKind::kAllToAll ? parts.size(h.from) : parts.elements();
  if (h.kind != collective_.kind || h.type != collective_.type || h.elements != expected || h.sparse != collective_.sparse) {
    const auto call = [](CollectiveKind kind, bool sparse, std::int64_t elements, DType type) {
      return absl::StrCat(sparse ? "sparse " : "", name(kind), " of ", elements, " x ", std::string(device::name(type)));
    };
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", arrival.from().value, " has ", call(h.kind, h.sparse, h.elements, h.type), " where rank ",
        group_.members[static_cast<std::size_t>(group_.self)].value, " has ", call(collective_.kind, collective_.sparse, expected, collective_.type),
        ": operation ", id_.value, " of group ", group_.id.value, " (", collective_.what, "); all members must call the same"));
  }
  const auto out_of_turn = [&] {
    return absl::FailedPreconditionError(absl::StrCat("rank ", arrival.from().value, " sent elements ", h.offset, " + ", h.count,
                                                      " out of turn in ", describe()));
  };
  heard_[static_cast<std::size_t>(h.from)] = true;
  if (h.count > expected) return out_of_turn();
  if (const std::int64_t bytes = bulk_bytes(h); arrival.bulk_bytes() != bytes) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", arrival.from().value, " sent ", arrival.bulk_bytes(), " bytes for elements ",
                                                      h.offset, " + ", h.count, ", whose header ",
                                                      bytes < 0 ? "has no set of their blocks" : absl::StrCat("tells ", bytes), ": ", describe()));
  }
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
  const auto came = [this, part, begin = h.offset, count = h.count] {
    results_received_ += count;
    if (failure_.ok() && collective_.kind != CollectiveKind::kAllToAll) hand_on(part, begin, begin + count);
  };
  if (fetch(h, arrival, at(base + h.offset), came)) came();
}

// What the header says that there is; -1: it says nothing that could be.
std::int64_t Operation::bulk_bytes(const CollectiveHeader& h) const {
  const std::int64_t bytes = h.count * size_;
  if (!collective_.sparse || h.count == 0) return bytes;
  return h.blocks ? packed_bytes(*h.blocks, bytes) : -1;
}

// The frame's elements to `into`. True: they are there, and `came` is never called; else it is, unless the fetch fails.
bool Operation::fetch(const CollectiveHeader& h, Arrival& arrival, std::byte* into, absl::AnyInvocable<void()> came) {
  const std::int64_t bytes = h.count * size_, missing = bytes - arrival.bulk_bytes();
  const auto spread = [into, bytes, missing, blocks = h.blocks] {
    if (missing > 0) unpack(into, bytes, *blocks);
  };
  if (arrival.bulk_bytes() == 0) {
    spread();
    return true;
  }
  ++under_way_;
  arrival.fetch(into + missing, [this, spread, came = std::move(came)](const Status& status) mutable {
    --under_way_;
    if (!status.ok()) {
      fail(status);
    } else {
      spread();
      came();
    }
    changed_();
  });
  return false;
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
    fetching_ = true;  // it may be here before fetch() returns
    const bool here = fetch(next.header, next.arrival, folding_.place(), [this] {
      fetching_ = false;
      if (!failure_.ok()) return;
      folding_.add();
      fold_more();
    });
    if (here) {
      fetching_ = false;
      folding_.add();
    }
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

}  // namespace troupe::comm
