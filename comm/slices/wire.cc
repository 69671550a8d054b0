#include "comm/slices/wire.h"

#include <bit>
#include <cstring>

namespace troupe::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

// Each field with its place, for both ways.
template <class Header, class Call>
void each_field(Header& header, const Call& call) {
  call(header.kind, 0);
  call(header.id.value, 4);
  call(header.owner.value, 8);
  call(header.rank.value, 12);
  call(header.ticket, 16);
  call(header.its_ticket, 24);
  call(header.version, 32);
  call(header.bytes, 40);
}

}  // namespace

std::vector<std::byte> encode(const SliceHeader& header, const std::string& text) {
  std::vector<std::byte> bytes(kSliceHeaderBytes + text.size());
  each_field(header, [&](const auto& field, std::size_t at) { std::memcpy(bytes.data() + at, &field, sizeof field); });
  std::memcpy(bytes.data() + kSliceHeaderBytes, text.data(), text.size());
  return bytes;
}

std::optional<SliceHeader> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kSliceHeaderBytes) return std::nullopt;
  SliceHeader header;
  each_field(header, [&](auto& field, std::size_t at) { std::memcpy(&field, bytes.data() + at, sizeof field); });
  if (header.kind < SliceHeader::Kind::kAsk || header.kind > SliceHeader::Kind::kWithdrawn) return std::nullopt;
  return header;
}

}  // namespace troupe::comm
