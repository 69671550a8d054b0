// The header of a collective's frame. Fixed size, little-endian, followed by `text` for a failure.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "comm/collective/collective.h"

namespace troupe::comm {

enum class Phase : std::uint8_t {
  kAddend,   // bulk: elements [offset, offset + count) of the sender's addend, for whoever folds them
  kResult,   // bulk: elements [offset, offset + count) as they shall be
  kArrived,  // of a barrier
  kFailed,   // the group has failed; the text says why, `offset` is the status code, `count` the first cause's rank + 2 (0: there is none)
  kNodeSum,  // bulk: elements [offset, offset + count), the sum over the sender's node, for the owner of the part
};

struct CollectiveHeader {
  GroupId group;
  OperationId operation;
  CollectiveKind kind = CollectiveKind::kBarrier;
  device::DType type = device::DType::kF32;
  Phase phase = Phase::kArrived;
  std::int32_t from = 0;       // index in the group
  std::int64_t elements = 0;   // of the whole operation, as the sender sees it; of an all-to-all: of this pair
  std::int64_t offset = 0, count = 0;
};

inline constexpr std::size_t kCollectiveHeaderBytes = 48;
std::array<std::byte, kCollectiveHeaderBytes> encode(const CollectiveHeader& header);
// Nothing if the bytes are no such header.
std::optional<CollectiveHeader> decode_collective(std::span<const std::byte> bytes);
std::string_view text_after_header(std::span<const std::byte> bytes);

}  // namespace troupe::comm
