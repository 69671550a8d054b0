#include "comm/slices/slices.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/check.h"

namespace troupe::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

enum class Kind : std::uint8_t {
  kAsk,      // for `bytes` of slice `id`, in that version
  kAnswer,   // bulk: the bytes
  kRefusal,  // followed by the reason
};

// The frame's header: kind, id, ticket, version, bytes; little-endian, without gaps.
struct Header {
  Kind kind = Kind::kAsk;
  std::int32_t id = 0;
  std::int64_t ticket = 0, version = 0, bytes = 0;
};
constexpr std::size_t kHeaderBytes = 32;

std::vector<std::byte> encode(const Header& header, const std::string& text = "") {
  std::vector<std::byte> bytes(kHeaderBytes + text.size());
  const auto kind = static_cast<std::int32_t>(header.kind);
  std::memcpy(bytes.data(), &kind, 4);
  std::memcpy(bytes.data() + 4, &header.id, 4);
  std::memcpy(bytes.data() + 8, &header.ticket, 8);
  std::memcpy(bytes.data() + 16, &header.version, 8);
  std::memcpy(bytes.data() + 24, &header.bytes, 8);
  std::memcpy(bytes.data() + kHeaderBytes, text.data(), text.size());
  return bytes;
}

std::optional<Header> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  Header header;
  std::int32_t kind = 0;
  std::memcpy(&kind, bytes.data(), 4);
  std::memcpy(&header.id, bytes.data() + 4, 4);
  std::memcpy(&header.ticket, bytes.data() + 8, 8);
  std::memcpy(&header.version, bytes.data() + 16, 8);
  std::memcpy(&header.bytes, bytes.data() + 24, 8);
  if (kind < 0 || kind > static_cast<std::int32_t>(Kind::kRefusal)) return std::nullopt;
  header.kind = static_cast<Kind>(kind);
  return header;
}

}  // namespace

Slices::Slices(Transport& transport) : transport_(transport) {
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
  transport_.post([this, owner, id, version, into, done = std::move(done)]() mutable { ask(owner, id, version, into, std::move(done)); });
}

void Slices::ask(Rank owner, SliceId id, std::int64_t version, std::span<std::byte> into, Completion done) {
  const std::int64_t ticket = ++tickets_;
  open_.emplace(ticket, Open{.owner = owner, .id = id, .into = into, .done = std::move(done)});
  const auto header =
      encode({.kind = Kind::kAsk, .id = id.value, .ticket = ticket, .version = version, .bytes = static_cast<std::int64_t>(into.size())});
  transport_.send({.to = owner, .channel = Channel::kSlices, .header = header, .sent = [this, ticket](Status status) {
                     if (!status.ok()) end(ticket, status);
                   }});
}

void Slices::arrive(Arrival arrival) {
  const auto header = decode(arrival.header());
  if (!header) return;
  if (header->kind == Kind::kAsk) {
    return answer({.from = arrival.from(), .id = SliceId(header->id), .ticket = header->ticket, .version = header->version, .bytes = header->bytes});
  }
  const auto found = open_.find(header->ticket);
  if (found == open_.end() || found->second.owner != arrival.from() || found->second.coming) return;
  Open& open = found->second;
  if (header->kind == Kind::kRefusal) {
    const auto text = arrival.header().subspan(kHeaderBytes);
    return end(header->ticket, absl::FailedPreconditionError(std::string(reinterpret_cast<const char*>(text.data()), text.size())));
  }
  if (arrival.bulk_bytes() != static_cast<std::int64_t>(open.into.size())) {
    return end(header->ticket, absl::FailedPreconditionError(absl::StrCat("rank ", open.owner.value, " sent ", arrival.bulk_bytes(), " bytes of slice ",
                                                                          open.id.value, ", ", open.into.size(), " were asked for")));
  }
  if (open.into.empty()) return end(header->ticket, ok());
  open.coming = true;
  arrival.fetch(open.into.data(), [this, ticket = header->ticket](const Status& status) { end(ticket, status); });
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
  Header header{.kind = Kind::kAnswer, .id = ask.id.value, .ticket = ask.ticket, .version = ask.version, .bytes = ask.bytes};
  if (!refusal.empty()) {
    header.kind = Kind::kRefusal;
    transport_.send({.to = ask.from, .channel = Channel::kSlices, .header = encode(header, refusal)});
  } else {
    transport_.send({.to = ask.from, .channel = Channel::kSlices, .lane = Lane::kBulk, .header = encode(header), .bulk = found->second.bytes});
  }
}

void Slices::end(std::int64_t ticket, const Status& status) {
  auto open = open_.extract(ticket);
  if (!open.empty() && open.mapped().done) open.mapped().done(status);
}

void Slices::peer_down(Rank peer, const Status& cause) {
  std::vector<std::int64_t> gone;
  for (const auto& [ticket, open] : open_) {
    if (open.owner == peer && !open.coming) gone.push_back(ticket);
  }
  for (const std::int64_t ticket : gone) end(ticket, cause);
  std::erase_if(early_, [peer](const Ask& ask) { return ask.from == peer; });
}

}  // namespace troupe::comm
