#include "comm/collective/operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/collective/fold.h"
#include "runtime/base/check.h"

namespace troupe::comm {

using device::bfloat16, device::DType;

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

Operation::Operation(Transport& transport, const Group& group, OperationId id, Collective collective, Completion done, Scratch scratch,
                     const std::function<void()>& changed)
    : transport_(transport),
      group_(group),
      id_(id),
      collective_(std::move(collective)),
      done_(std::move(done)),
      changed_(changed),
      size_(device::size_bytes(collective_.type)),
      small_(collective_.kind == CollectiveKind::kAllReduce && collective_.parts.elements() * size_ <= kSmallBytes),
      outgoing_(static_cast<std::size_t>(group.size())),
      waiting_(static_cast<std::size_t>(group.size())),
      scratch_(std::move(scratch)) {
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

void Operation::start() {
  const auto& parts = collective_.parts;
  const int self = group_.self;
  for (int member = 0; member < group_.size(); ++member) {
    if (member == self) continue;
    switch (collective_.kind) {
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kReduceScatter:
        if (small_) {
          queue(member, Phase::kAddend, collective_.data, 0, parts.elements());
        } else {
          queue(member, Phase::kAddend, collective_.data, parts.begin(member), parts.end(member));
        }
        break;
      case CollectiveKind::kAllGather:
      case CollectiveKind::kBroadcast: queue(member, Phase::kResult, collective_.data, parts.begin(self), parts.end(self)); break;
      case CollectiveKind::kAllToAll: {
        const auto& from = collective_.from_parts;
        queue(member, Phase::kResult, collective_.from + from.begin(member) * size_, 0, from.size(member));
        break;
      }
      case CollectiveKind::kBarrier: send_one(member, Phase::kArrived, nullptr, 0, 0); break;
    }
  }
  if (collective_.kind == CollectiveKind::kAllToAll) {
    const auto& from = collective_.from_parts;
    TROUPE_CHECK(from.size(self) == parts.size(self)) << describe() << ": one's own part differs from itself";
    if (from.size(self) > 0) {
      std::memcpy(at(parts.begin(self)), collective_.from + from.begin(self) * size_, static_cast<std::size_t>(from.size(self) * size_));
    }
  }
  if (reduces()) {
    fold_at_ = small_ ? 0 : parts.begin(self);
    fold_end_ = small_ ? parts.elements() : parts.end(self);
    fold_to_ = std::min(fold_end_, fold_at_ + chunk_elements());
    fold_more();
  }
}

bool Operation::complete() const {
  if (collective_.kind == CollectiveKind::kBarrier) return arrived_ == group_.size() - 1;
  if (fold_at_ < fold_end_ || results_received_ < expected_results()) return false;
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

void Operation::queue(int to, Phase phase, const std::byte* base, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  outgoing_[static_cast<std::size_t>(to)].push_back({.phase = phase, .base = base, .next = begin, .end = end});
  send_more(to);
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
      send_one(to, part.phase, part.base + offset * size_, offset, count);
    }
  }
}

void Operation::send_one(int to, Phase phase, const std::byte* bulk, std::int64_t offset, std::int64_t count) {
  ++under_way_;
  const auto head = encode(header(to, phase, offset, count));
  transport_.send({.to = group_.members[static_cast<std::size_t>(to)],
                   .channel = Channel::kCollectives,
                   .lane = count > 0 ? Lane::kBulk : Lane::kControl,
                   .header = head,
                   .bulk = {bulk, static_cast<std::size_t>(count * size_)},
                   .sent = [this, to, phase, count](Status status) {
                     --under_way_;
                     auto& left = outgoing_[static_cast<std::size_t>(to)];
                     if (count > 0) {
                       const auto part = std::find_if(left.begin(), left.end(), [&](const Outgoing& out) {
                         return out.phase == phase && out.in_flight > 0;
                       });
                       --part->in_flight;
                       std::erase_if(left, [](const Outgoing& out) { return out.next == out.end && out.in_flight == 0; });
                     }
                     if (absl::IsCancelled(status)) {
                       // The receiver's group has failed; it, or who told it, tells why.
                     } else if (!status.ok()) {
                       fail(status);
                     } else if (failure_.ok()) {
                       send_more(to);
                       fold_more();  // a small sum may wait for its own addend to have left
                     }
                     changed_();
                   }});
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
  if (arrival.bulk_bytes() != h.count * size_) return out_of_turn();
  switch (h.phase) {
    case Phase::kArrived:
      ++arrived_;
      return ok();
    case Phase::kAddend:
      if (!reduces()) return out_of_turn();
      waiting_[static_cast<std::size_t>(h.from)].push_back({h, std::move(arrival)});
      fold_more();
      return ok();
    case Phase::kResult: {
      const std::int64_t size = parts.size(h.from), begin = collective_.kind == CollectiveKind::kAllToAll ? 0 : parts.begin(h.from);
      if (h.offset < begin || h.count > size || h.offset - begin > size - h.count) return out_of_turn();
      take_result(h, std::move(arrival));
      return ok();
    }
    case Phase::kFailed: break;
  }
  return out_of_turn();
}

void Operation::take_result(const CollectiveHeader& h, Arrival arrival) {
  const std::int64_t base = collective_.kind == CollectiveKind::kAllToAll ? collective_.parts.begin(h.from) : 0;
  ++under_way_;
  arrival.fetch(at(base + h.offset), [this, count = h.count](Status status) {
    --under_way_;
    results_received_ += count;
    if (!status.ok()) fail(status);
    changed_();
  });
}

// --- folding ---

void Operation::fold_more() {
  while (failure_.ok() && !fetching_ && fold_at_ < fold_end_) {
    const std::int64_t count = fold_to_ - fold_at_;
    if (fold_next_ == group_.size()) {
      if (small_ && under_way_ > 0) return;  // our addend, which the sum will overwrite, is still on its way
      chunk_folded();
      continue;
    }
    if (fold_next_ == group_.self) {
      fold(group_.self);
      continue;
    }
    auto& waiting = waiting_[static_cast<std::size_t>(fold_next_)];
    if (waiting.empty()) return;
    Waiting next = std::move(waiting.front());
    waiting.pop_front();
    if (next.header.offset != fold_at_ || next.header.count != count) {
      fail(absl::FailedPreconditionError(absl::StrCat("rank ", next.arrival.from().value, " sent elements ", next.header.offset, " + ",
                                                      next.header.count, " where ", fold_at_, " + ", count, " were due: ", describe())));
      return;
    }
    // The first addend is the sum so far: it is fetched to where the sum grows.
    const bool first = fold_next_ == 0 && collective_.type == DType::kF32;
    const auto chunk = static_cast<std::size_t>(std::min(fold_end_ - fold_at_, chunk_elements()));
    first ? scratch_.sum.resize(std::max(scratch_.sum.size(), chunk)) : scratch_.incoming.resize(chunk * static_cast<std::size_t>(size_));
    std::byte* into = first ? reinterpret_cast<std::byte*>(scratch_.sum.data()) : scratch_.incoming.data();
    fetching_ = true;
    ++under_way_;
    next.arrival.fetch(into, [this](Status status) {
      --under_way_;
      fetching_ = false;
      if (!status.ok()) {
        fail(status);
      } else if (failure_.ok()) {
        fold(fold_next_);
        fold_more();
      }
      changed_();
    });
  }
}

// Adds what `member` brought to the sum of those before it.
void Operation::fold(int member) {
  const std::int64_t count = fold_to_ - fold_at_;
  const bool own = member == group_.self;
  const std::byte* addend = own ? at(fold_at_) : scratch_.incoming.data();
  ++fold_next_;
  if (collective_.type == DType::kBF16) {
    scratch_.sum.resize(std::max(scratch_.sum.size(), static_cast<std::size_t>(count)));
    const auto* values = reinterpret_cast<const bfloat16*>(addend);
    member == 0 ? widen_bf16(scratch_.sum.data(), values, count) : add_bf16(scratch_.sum.data(), values, count);
    return;
  }
  const auto* values = reinterpret_cast<const float*>(addend);
  if (small_) {
    if (member == 0 && own) {
      scratch_.sum.assign(values, values + count);
    } else if (member > 0) {
      add_fp32(scratch_.sum.data(), values, count);
    }
    return;
  }
  // In place from our own turn on: a + b has the bits of b + a.
  auto* in_place = reinterpret_cast<float*>(at(fold_at_));
  if (own) {
    if (member > 0) add_fp32(in_place, scratch_.sum.data(), count);
  } else if (member > group_.self) {
    add_fp32(in_place, values, count);
  } else if (member > 0) {
    add_fp32(scratch_.sum.data(), values, count);
  }
}

void Operation::chunk_folded() {
  const std::int64_t begin = fold_at_, count = fold_to_ - fold_at_;
  if (collective_.type == DType::kBF16) {
    narrow_to_bf16(reinterpret_cast<bfloat16*>(at(begin)), scratch_.sum.data(), count);
  } else if (small_) {
    std::memcpy(at(begin), scratch_.sum.data(), static_cast<std::size_t>(count) * 4);
  }
  fold_at_ = fold_to_;
  fold_to_ = std::min(fold_end_, fold_at_ + chunk_elements());
  fold_next_ = 0;
  if (collective_.kind == CollectiveKind::kAllReduce && !small_) {
    for (int member = 0; member < group_.size(); ++member) {
      if (member != group_.self) queue(member, Phase::kResult, collective_.data, begin, begin + count);
    }
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
  return std::move(scratch_);
}

}  // namespace troupe::comm
