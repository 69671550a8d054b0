#include "comm/inspect/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "comm/transport.h"

namespace troupe::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");
static_assert(kInspectHeaderBytes + kQuestionBytesMost <= kHeaderBytesMost);

// Each field with its place, for both ways.
template <class Header, class Call>
void each_field(Header& header, const Call& call) {
  call(header.kind, 0);
  call(header.root.value, 4);
  call(header.ticket, 8);
  call(header.patience_ns, 16);
}

// In front of each reply's text.
struct Prefix {
  std::int32_t rank = 0;
  std::int32_t code = 0;  // absl::StatusCode; 0: the text is the answer, else why there is none
  std::uint64_t text_bytes = 0;
};
static_assert(sizeof(Prefix) == kReplyHeaderBytes);

std::string_view text_of(const InspectReply& reply) {
  if (reply.status.ok()) return reply.text;
  return std::string_view(reply.status.message().data(), reply.status.message().size()).substr(0, kReasonBytesMost);
}

}  // namespace

std::vector<std::byte> encode(const InspectHeader& header, std::string_view question) {
  std::vector<std::byte> bytes(kInspectHeaderBytes + question.size());
  each_field(header, [&](const auto& field, std::size_t at) { std::memcpy(bytes.data() + at, &field, sizeof field); });
  std::ranges::copy(std::as_bytes(std::span(question)), bytes.begin() + kInspectHeaderBytes);
  return bytes;
}

std::optional<InspectHeader> decode_inspect(std::span<const std::byte> bytes) {
  if (bytes.size() < kInspectHeaderBytes) return std::nullopt;
  InspectHeader header;
  each_field(header, [&](auto& field, std::size_t at) { std::memcpy(&field, bytes.data() + at, sizeof field); });
  if (header.kind != InspectHeader::Kind::kQuestion && header.kind != InspectHeader::Kind::kReplies) return std::nullopt;
  return header;
}

std::size_t packed_bytes(const InspectReply& reply) { return kReplyHeaderBytes + text_of(reply).size(); }

void pack(const InspectReply& reply, std::vector<std::byte>& into) {
  const auto text = text_of(reply);
  const Prefix prefix{.rank = reply.rank.value, .code = static_cast<std::int32_t>(reply.status.code()), .text_bytes = text.size()};
  const auto append = [&into](std::span<const std::byte> bytes) { into.insert(into.end(), bytes.begin(), bytes.end()); };
  append(std::as_bytes(std::span(&prefix, 1)));
  append(std::as_bytes(std::span(text)));
}

std::optional<std::vector<InspectReply>> unpack(std::span<const std::byte> bytes) {
  constexpr auto kCodeMost = static_cast<std::int32_t>(absl::StatusCode::kUnauthenticated);
  std::vector<InspectReply> replies;
  while (!bytes.empty()) {
    Prefix prefix;
    if (bytes.size() < sizeof prefix) return std::nullopt;
    std::memcpy(&prefix, bytes.data(), sizeof prefix);
    bytes = bytes.subspan(sizeof prefix);
    if (prefix.code < 0 || prefix.code > kCodeMost || prefix.text_bytes > bytes.size() ||
        prefix.text_bytes > (prefix.code == 0 ? kAnswerBytesMost : kReasonBytesMost)) {
      return std::nullopt;
    }
    std::string text(reinterpret_cast<const char*>(bytes.data()), prefix.text_bytes);
    bytes = bytes.subspan(prefix.text_bytes);
    InspectReply& reply = replies.emplace_back(InspectReply{.rank = Rank(prefix.rank), .status = ok(), .text = {}});
    if (prefix.code == 0) {
      reply.text = std::move(text);
    } else {
      reply.status = Status(static_cast<absl::StatusCode>(prefix.code), text);
    }
  }
  return replies;
}

}  // namespace troupe::comm
