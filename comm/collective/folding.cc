#include "comm/collective/folding.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/collective/fold.h"

namespace troupe::comm {

using device::bfloat16, device::DType;

std::vector<Folding::Piece> Folding::pieces(const Layout& layout, const Parts& parts, int member, std::int64_t chunk) {
  std::vector<Piece> left;
  for (int part = 0; part < parts.members(); ++part) {
    if (part != member && layout.folds(member, part) == member) left.push_back({part, parts.begin(part), parts.end(part)});
  }
  left.push_back({member, parts.begin(member), parts.end(member)});  // last: it needs what others fold in their turn
  std::vector<Piece> all;
  for (bool more = true; std::exchange(more, false);) {
    for (auto& part : left) {
      if (part.begin == part.end) continue;
      const std::int64_t end = std::min(part.end, part.begin + chunk);
      all.push_back({part.part, std::exchange(part.begin, end), end});
      more = true;
    }
  }
  return all;
}

Folding::Folding(const Layout& layout, int self, const Collective& collective, std::vector<Piece> pieces, bool everything, Scratch scratch)
    : layout_(&layout),
      self_(self),
      collective_(&collective),
      size_(device::size_bytes(collective.type)),
      everything_(everything),
      pieces_(std::move(pieces)),
      scratch_(std::move(scratch)) {
  for (const Piece& piece : pieces_) {
    for_others_ += !everything && piece.part != self && piece.begin == collective.parts.begin(piece.part) ? 1 : 0;
  }
}

int Folding::source() const {
  const int node = layout_->node_of(self_);
  if (!of_nodes()) return layout_->members(node)[step_];
  const std::size_t at = step_ - locals();
  if (one_node() || !owned() || at == static_cast<std::size_t>(layout_->nodes())) return -1;
  return layout_->delegate(static_cast<int>(at), self_);
}

// The first addend is the sum so far: it is fetched to where the sum grows.
std::byte* Folding::place() {
  const auto count = static_cast<std::size_t>(piece().count());
  if (first() && collective_->type == DType::kF32) {
    auto& sum = of_nodes() ? scratch_.node_sum : scratch_.sum;
    sum.resize(std::max(sum.size(), count));
    return reinterpret_cast<std::byte*>(sum.data());
  }
  scratch_.incoming.resize(std::max(scratch_.incoming.size(), count * static_cast<std::size_t>(size_)));
  return scratch_.incoming.data();
}

void Folding::add() {
  const int member = source();
  const bool own = member == self_;
  if (of_nodes()) {
    if (own && collective_->type == DType::kBF16) {  // as the other nodes' sums are
      scratch_.incoming.resize(std::max(scratch_.incoming.size(), static_cast<std::size_t>(piece().count() * size_)));
      write(scratch_.incoming.data(), scratch_.sum);
    }
    accumulate(scratch_.node_sum, own && collective_->type == DType::kF32 ? reinterpret_cast<const std::byte*>(scratch_.sum.data())
                                                                          : scratch_.incoming.data());
  } else {
    const std::byte* addend = own ? at(piece().begin) : scratch_.incoming.data();
    if (one_node() && !everything_ && collective_->type == DType::kF32) {
      add_in_place(member, addend);
    } else if (own || !first() || collective_->type == DType::kBF16) {
      accumulate(scratch_.sum, addend);
    }
  }
  ++step_;
}

// sum += addend; the first is copied, unless it was fetched to there.
void Folding::accumulate(std::vector<float>& sum, const std::byte* addend) {
  const std::int64_t count = piece().count();
  sum.resize(std::max(sum.size(), static_cast<std::size_t>(count)));
  if (collective_->type == DType::kBF16) {
    const auto* values = reinterpret_cast<const bfloat16*>(addend);
    first() ? widen_bf16(sum.data(), values, count) : add_bf16(sum.data(), values, count);
    return;
  }
  const auto* values = reinterpret_cast<const float*>(addend);
  if (!first()) return add_fp32(sum.data(), values, count);
  const bool there = of_nodes() && source() != self_;
  if (!there) std::memcpy(sum.data(), values, static_cast<std::size_t>(count) * sizeof(float));
}

// fp32 in one node: from our own turn on the sum grows in its place. a + b has the bits of b + a.
void Folding::add_in_place(int member, const std::byte* addend) {
  const std::int64_t count = piece().count();
  auto* in_place = reinterpret_cast<float*>(at(piece().begin));
  const auto* values = reinterpret_cast<const float*>(addend);
  if (member == self_) {
    if (!first()) add_fp32(in_place, scratch_.sum.data(), count);
  } else if (member > self_) {
    add_fp32(in_place, values, count);
  } else if (!first()) {
    add_fp32(scratch_.sum.data(), values, count);
  }
}

Folding::Folded Folding::take() {
  Folded folded{.piece = piece(), .bytes = at(piece().begin), .kept = nullptr};
  const bool for_another = !owned() && !everything_;
  if (one_node() && !everything_ && collective_->type == DType::kF32) {
    // it is in its place
  } else if (for_another && collective_->kind == CollectiveKind::kReduceScatter) {
    folded.kept = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(piece().count() * size_));
    folded.bytes = folded.kept->data();
    write(folded.kept->data(), scratch_.sum);
  } else {
    write(at(piece().begin), owned() && !one_node() ? scratch_.node_sum : scratch_.sum);
  }
  ++next_;
  step_ = 0;
  return folded;
}

void Folding::write(std::byte* to, const std::vector<float>& sum) const {
  const std::int64_t count = piece().count();
  if (collective_->type == DType::kBF16) {
    narrow_to_bf16(reinterpret_cast<bfloat16*>(to), sum.data(), count);
  } else {
    std::memcpy(to, sum.data(), static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace troupe::comm
