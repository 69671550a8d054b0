// The frames of comm/inspect: a question in a header, replies of several ranks in a bulk. WIRE.md has the bytes.
//
// Threads: any. Errors: bytes that are none of these decode to nothing. Limits: below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace troupe::comm {

// What is known of a rank: its answer, or why there is none.
struct InspectReply {
  Rank rank;
  Status status;
  std::string text;
  std::int64_t after_ns = 0;  // from the question to it, where it was asked; does not travel
};

struct InspectHeader {
  // The numbers travel: never reuse one.
  enum class Kind : std::int32_t {
    kQuestion = 0,  // followed by it: what do you and your subtree say?
    kReplies = 1,   // bulk: some of them; there may be more to come
  };
  Kind kind = Kind::kQuestion;
  Rank root;                     // whose question it is
  std::int64_t ticket = 0;       // of who asks the receiver; comes back with the replies
  std::int64_t patience_ns = 0;  // of a question: for how long he waits
};
inline constexpr std::size_t kInspectHeaderBytes = 24;
inline constexpr std::size_t kQuestionBytesMost = 3 << 10;
inline constexpr std::size_t kAnswerBytesMost = 64 << 20;
inline constexpr std::size_t kReplyHeaderBytes = 16;
inline constexpr std::size_t kRepliesBytesMost = kReplyHeaderBytes + kAnswerBytesMost;  // of one frame: it holds any one reply

std::vector<std::byte> encode(const InspectHeader& header, std::string_view question = {});
std::optional<InspectHeader> decode_inspect(std::span<const std::byte> bytes);

// Of a reply without an answer, the message of its status travels, cut to kReasonBytesMost.
std::size_t packed_bytes(const InspectReply& reply);
void pack(const InspectReply& reply, std::vector<std::byte>& into);
// All of them or nothing.
std::optional<std::vector<InspectReply>> unpack(std::span<const std::byte> bytes);

}  // namespace troupe::comm
