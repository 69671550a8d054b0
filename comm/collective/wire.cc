#include "comm/collective/wire.h"

#include <bit>
#include <cstring>

namespace troupe::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

template <class T>
std::byte* put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}
template <class T>
const std::byte* take(const std::byte* at, T& value) {
  std::memcpy(&value, at, sizeof value);
  return at + sizeof value;
}

}  // namespace

std::vector<std::byte> encode(const CollectiveHeader& h) {
  std::vector<std::byte> bytes(kCollectiveHeaderBytes + (h.blocks ? kBlockSetBytes : 0));
  std::byte* at = put(bytes.data(), h.group.value);
  at = put(at, h.from);
  at = put(at, h.operation.value);
  at = put(at, h.elements);
  at = put(at, h.offset);
  at = put(at, h.count);
  at = put(at, static_cast<std::uint8_t>(h.kind));
  at = put(at, static_cast<std::uint8_t>(h.type));
  at = put(at, static_cast<std::uint8_t>(h.phase));
  put(at, static_cast<std::uint8_t>(h.sparse));
  if (h.blocks) put(bytes.data() + kCollectiveHeaderBytes, h.blocks->words);
  return bytes;
}

std::optional<CollectiveHeader> decode_collective(std::span<const std::byte> bytes) {
  if (bytes.size() < kCollectiveHeaderBytes) return std::nullopt;
  CollectiveHeader h;
  std::uint8_t kind = 0, type = 0, phase = 0, sparse = 0;
  const std::byte* at = take(bytes.data(), h.group.value);
  at = take(at, h.from);
  at = take(at, h.operation.value);
  at = take(at, h.elements);
  at = take(at, h.offset);
  at = take(at, h.count);
  at = take(at, kind);
  at = take(at, type);
  at = take(at, phase);
  take(at, sparse);
  if (kind > static_cast<std::uint8_t>(CollectiveKind::kBarrier) || type > static_cast<std::uint8_t>(device::DType::kU8) ||
      phase > static_cast<std::uint8_t>(Phase::kNodeSum) || sparse > 1) {
    return std::nullopt;
  }
  if (h.from < 0 || h.elements < 0 || h.offset < 0 || h.count < 0) return std::nullopt;
  h.kind = static_cast<CollectiveKind>(kind);
  h.type = static_cast<device::DType>(type);
  h.phase = static_cast<Phase>(phase);
  h.sparse = sparse != 0;
  if (h.sparse && bytes.size() == kCollectiveHeaderBytes + kBlockSetBytes) take(bytes.data() + kCollectiveHeaderBytes, h.blocks.emplace().words);
  return h;
}

std::string_view text_after_header(std::span<const std::byte> bytes) {
  const auto text = bytes.subspan(kCollectiveHeaderBytes);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

}  // namespace troupe::comm
