// The header of a collective's frame. Fixed size, little-endian, followed by `text` for a failure, and by the set of its blocks where the
// operation is sparse and the frame has elements: its bulk is those blocks one after the other, none if all are zero.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/collective/collective.h"
#include "comm/collective/sparse.h"

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
  bool sparse = false;
  std::optional<BlockSet> blocks{};  // of a sparse operation's elements: which of their blocks the bulk is
};

inline constexpr std::size_t kCollectiveHeaderBytes = 48;
inline constexpr std::size_t kBlockSetBytes = sizeof(BlockSet::words);
std::vector<std::byte> encode(const CollectiveHeader& header);
// Nothing if the bytes are no such header. Without `blocks` if what follows is not just a set.
std::optional<CollectiveHeader> decode_collective(std::span<const std::byte> bytes);
std::string_view text_after_header(std::span<const std::byte> bytes);

}  // namespace troupe::comm
