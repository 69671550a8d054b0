#include "comm/slices/slices.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::comm {

using Kind = SliceHeader::Kind;

Slices::Slices(Transport& transport, std::vector<Rank> mates) : transport_(transport), mates_(std::move(mates)) {
  transport.handle(Channel::kSlices, [this](Arrival arrival) { arrive(std::move(arrival)); });
}

void Slices::show(SliceId id, std::span<const std::byte> bytes) {
  TROUPE_CHECK(shown_.emplace(id, Shown{.bytes = bytes}).second) << "slice " << id << " is shown already";
}

void Slices::publish(SliceId id, std::int64_t version) {
  transport_.post([this, id, version] {
    Shown& shown = shown_.at(id);
    TROUPE_CHECK(version > shown.version) << "version " << version << " of slice " << id << " after " << shown.version;
    shown.version = version;
    std::vector<Ask> early;
    std::swap(early, early_);
    for (const Ask& ask : early) answer(ask);
  });
}

void Slices::fetch(Rank owner, SliceId id, std::int64_t version, std::span<std::byte> into, Completion done) {
  transport_.post([this, wish = Wish{.slice = {owner, id}, .version = version, .into = into, .done = std::move(done)}]() mutable {
    begin(std::move(wish));
  });
}

bool Slices::is_mate(Rank rank) const { return std::find(mates_.begin(), mates_.end(), rank) != mates_.end(); }

Rank Slices::register_of(SliceKey slice) const {
  return mates_[(static_cast<std::size_t>(slice.id.value) + static_cast<std::size_t>(slice.owner.value)) % mates_.size()];
}

void Slices::begin(Wish wish) {
  if (!copies_.clear(wish.into, [this](std::int64_t ticket, SliceKey slice) { withdrawn(ticket, slice); })) {
    held_up_.push_back(std::move(wish));
    return;
  }
  const std::int64_t ticket = ++tickets_;
  const bool by_node = mates_.size() > 1 && !is_mate(wish.slice.owner) && !wish.into.empty();
  if (by_node) copies_.add(ticket, {.slice = wish.slice, .version = wish.version, .bytes = wish.into});
  open_.emplace(ticket, Open{.wish = std::move(wish)});
  if (by_node) {
    look_up(ticket, std::nullopt);
  } else {
    ask(ticket, std::nullopt);
  }
}

void Slices::look_up(std::int64_t ticket, const std::optional<Fetch>& gone) {
  Open& open = open_.at(ticket);
  const Wish& wish = open.wish;
  const Rank whom = register_of(wish.slice);
  if (whom == transport_.rank()) {
    if (gone) register_.withdraw(wish.slice, *gone);
    return ask(ticket, register_.source(wish.slice, wish.version, {transport_.rank(), ticket}));
  }
  open.asked = whom;
  open.looks_up = true;
  const Fetch it_was = gone.value_or(Fetch{Rank(-1), 0});
  send(whom, {.kind = Kind::kWhere, .id = wish.slice.id, .owner = wish.slice.owner, .rank = it_was.rank, .ticket = ticket,
              .its_ticket = it_was.ticket, .version = wish.version});
}

void Slices::ask(std::int64_t ticket, const std::optional<Fetch>& from) {
  Open& open = open_.at(ticket);
  const Wish& wish = open.wish;
  open.looks_up = false;
  open.from = from.value_or(Fetch{wish.slice.owner, 0});
  open.asked = open.from.rank;
  send(open.asked, {.kind = from ? Kind::kAskCopy : Kind::kAsk, .id = wish.slice.id, .owner = wish.slice.owner, .ticket = ticket,
                    .its_ticket = open.from.ticket, .version = wish.version, .bytes = static_cast<std::int64_t>(wish.into.size())});
}

// Where `header.ticket` is one of ours, it ends if this cannot be sent.
void Slices::send(Rank to, const SliceHeader& header) {
  const bool asks = header.kind == Kind::kAsk || header.kind == Kind::kAskCopy || header.kind == Kind::kWhere;
  transport_.send({.to = to, .channel = Channel::kSlices, .header = encode(header), .sent = [this, asks, ticket = header.ticket](Status status) {
                     if (asks && !status.ok()) end(ticket, status);
                   }});
}

void Slices::arrive(Arrival arrival) {
  const auto header = decode(arrival.header());
  if (!header) return;
  const Rank from = arrival.from();
  if (header->kind == Kind::kAsk) {
    return answer({.from = from, .id = header->id, .ticket = header->ticket, .version = header->version, .bytes = header->bytes});
  }
  if (header->kind == Kind::kAnswer || header->kind == Kind::kRefusal) return answered(std::move(arrival), *header);
  if (!is_mate(from)) return;
  const SliceKey slice{header->owner, header->id};
  const auto found = open_.find(header->ticket);
  const bool awaited = found != open_.end() && found->second.asked == from && !found->second.coming;
  switch (header->kind) {
    case Kind::kWhere: {
      if (register_of(slice) != transport_.rank()) return;
      if (header->rank.value >= 0) register_.withdraw(slice, {header->rank, header->its_ticket});
      const auto source = register_.source(slice, header->version, {from, header->ticket});
      const Fetch there = source.value_or(Fetch{slice.owner, 0});
      return send(from, {.kind = Kind::kThere, .rank = there.rank, .ticket = header->ticket, .its_ticket = there.ticket});
    }
    case Kind::kWithdrawn: return register_.withdraw(slice, {from, header->ticket});
    case Kind::kAskCopy: return give_copy(from, *header);
    case Kind::kThere:
      if (!awaited || !found->second.looks_up) return;
      if (header->rank == found->second.wish.slice.owner) return ask(header->ticket, std::nullopt);
      if (is_mate(header->rank)) ask(header->ticket, Fetch{header->rank, header->its_ticket});
      return;
    case Kind::kGone:
      if (awaited && !found->second.looks_up && is_mate(found->second.asked)) look_up(header->ticket, found->second.from);
      return;
    default: return;
  }
}

void Slices::answered(Arrival arrival, const SliceHeader& header) {
  const auto found = open_.find(header.ticket);
  if (found == open_.end() || found->second.asked != arrival.from() || found->second.looks_up || found->second.coming) return;
  Open& open = found->second;
  const Wish& wish = open.wish;
  if (header.kind == Kind::kRefusal) {
    const auto text = arrival.header().subspan(kSliceHeaderBytes);
    return end(header.ticket, absl::FailedPreconditionError(std::string(reinterpret_cast<const char*>(text.data()), text.size())));
  }
  if (arrival.bulk_bytes() != static_cast<std::int64_t>(wish.into.size())) {
    return end(header.ticket,
               absl::FailedPreconditionError(absl::StrCat("rank ", open.asked.value, " sent ", arrival.bulk_bytes(), " bytes of slice ",
                                                          wish.slice.id.value, ", ", wish.into.size(), " were asked for")));
  }
  if (wish.into.empty()) return end(header.ticket, ok());
  open.coming = true;
  arrival.fetch(wish.into.data(), [this, ticket = header.ticket](const Status& status) { end(ticket, status); });
}

void Slices::answer(const Ask& ask) {
  const auto found = shown_.find(ask.id);
  std::string refusal;
  if (found == shown_.end()) {
    refusal = absl::StrCat("rank ", transport_.rank().value, " shows no slice ", ask.id.value);
  } else if (static_cast<std::int64_t>(found->second.bytes.size()) != ask.bytes) {
    refusal = absl::StrCat("slice ", ask.id.value, " of rank ", transport_.rank().value, " has ", found->second.bytes.size(), " bytes, rank ",
                           ask.from.value, " asked for ", ask.bytes);
  } else if (found->second.version > ask.version) {
    refusal = absl::StrCat("slice ", ask.id.value, " of rank ", transport_.rank().value, " is at version ", found->second.version, ", rank ",
                           ask.from.value, " asked for ", ask.version);
  } else if (found->second.version < ask.version) {
    early_.push_back(ask);
    return;
  }
  SliceHeader header{.kind = Kind::kAnswer, .id = ask.id, .owner = transport_.rank(), .ticket = ask.ticket, .version = ask.version,
                     .bytes = ask.bytes};
  if (!refusal.empty()) {
    header.kind = Kind::kRefusal;
    transport_.send({.to = ask.from, .channel = Channel::kSlices, .header = encode(header, refusal)});
  } else {
    transport_.send({.to = ask.from, .channel = Channel::kSlices, .lane = Lane::kBulk, .header = encode(header), .bulk = found->second.bytes});
  }
}

void Slices::give_copy(Rank to, const SliceHeader& header) {
  Copies::Copy* copy = copies_.find(header.its_ticket);
  const bool that_one = copy && copy->slice == SliceKey{header.owner, header.id} && copy->version == header.version &&
                        static_cast<std::int64_t>(copy->bytes.size()) == header.bytes;
  if (!that_one) return send(to, {.kind = Kind::kGone, .ticket = header.ticket});
  const Copies::Ask ask{.from = to, .ticket = header.ticket};
  if (copy->complete) {
    send_copy(header.its_ticket, *copy, ask);
  } else {
    copy->waiting.push_back(ask);
  }
}

void Slices::send_copy(std::int64_t ticket, Copies::Copy& copy, const Copies::Ask& ask) {
  ++copy.taking;
  const SliceHeader header{.kind = Kind::kAnswer, .id = copy.slice.id, .owner = copy.slice.owner, .ticket = ask.ticket, .version = copy.version,
                           .bytes = static_cast<std::int64_t>(copy.bytes.size())};
  transport_.send({.to = ask.from, .channel = Channel::kSlices, .lane = Lane::kBulk, .header = encode(header), .bulk = copy.bytes,
                   .sent = [this, ticket](const Status&) {
                     if (!copies_.taken(ticket)) return;
                     std::vector<Wish> held_up;
                     std::swap(held_up, held_up_);
                     for (Wish& wish : held_up) begin(std::move(wish));
                   }});
}

void Slices::withdrawn(std::int64_t ticket, SliceKey slice) {
  const Rank whom = register_of(slice);
  if (whom == transport_.rank()) {
    register_.withdraw(slice, {whom, ticket});
  } else {
    send(whom, {.kind = Kind::kWithdrawn, .id = slice.id, .owner = slice.owner, .ticket = ticket});
  }
}

void Slices::end(std::int64_t ticket, const Status& status) {
  auto open = open_.extract(ticket);
  if (open.empty()) return;
  if (Copies::Copy* copy = copies_.find(ticket)) {
    const auto waiting = std::exchange(copy->waiting, {});
    copy->complete = status.ok();
    for (const auto& ask : waiting) {
      if (status.ok()) {
        send_copy(ticket, *copy, ask);
      } else {
        send(ask.from, {.kind = Kind::kGone, .ticket = ask.ticket});
      }
    }
    if (!status.ok()) {
      withdrawn(ticket, copy->slice);
      copies_.remove(ticket);
    }
  }
  if (open.mapped().wish.done) open.mapped().wish.done(status);
}

void Slices::peer_down(Rank peer, const Status& cause) {
  register_.peer_down(peer);
  copies_.peer_down(peer);
  std::erase_if(early_, [peer](const Ask& ask) { return ask.from == peer; });
  std::vector<std::int64_t> gone;
  for (const auto& [ticket, open] : open_) {
    if ((open.asked == peer || open.wish.slice.owner == peer) && !open.coming) gone.push_back(ticket);
  }
  for (const std::int64_t ticket : gone) end(ticket, cause);
}

}  // namespace troupe::comm
