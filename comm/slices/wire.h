// The frames of comm/slices: one header for all kinds, behind a refusal its reason.
//
// Threads: any. Errors: bytes that are no header decode to nothing. Limits: numbers travel little-endian, without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/ids.h"

namespace troupe::comm {

using SliceId = Id<struct SliceTag>;

struct SliceHeader {
  // The numbers travel: never reuse one.
  enum class Kind : std::int32_t {
    kAsk = 0,        // to the owner: `bytes` of the slice in that version
    kAnswer = 1,     // bulk: the bytes
    kRefusal = 2,    // followed by the reason
    kWhere = 3,      // to its register: who of this machine has the slice, or will? Not `rank`'s fetch `its_ticket`, if there is one
    kThere = 4,      // `rank`, by its fetch `its_ticket`; or the owner
    kAskCopy = 5,    // to who has it: the bytes of your fetch `its_ticket`
    kGone = 6,       // they are no longer here
    kWithdrawn = 7,  // to the register: what `ticket` fetched is no longer here
  };
  Kind kind = Kind::kAsk;
  SliceId id;
  Rank owner;
  Rank rank{-1};
  std::int64_t ticket = 0;      // of the asker's fetch
  std::int64_t its_ticket = 0;  // of `rank`'s
  std::int64_t version = 0, bytes = 0;
};
inline constexpr std::size_t kSliceHeaderBytes = 48;

std::vector<std::byte> encode(const SliceHeader& header, const std::string& text = "");
std::optional<SliceHeader> decode(std::span<const std::byte> bytes);

}  // namespace troupe::comm
