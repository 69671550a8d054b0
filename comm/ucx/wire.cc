#include "comm/ucx/wire.h"

#include <algorithm>
#include <array>
#include <concepts>

namespace troupe::comm {
namespace {

template <std::unsigned_integral T>
void put(std::byte* into, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) into[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

template <std::unsigned_integral T>
T get(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(from[i]) << (8 * i)));
  return value;
}

// Offsets of WIRE.md.
constexpr std::size_t kMagicAt = 0, kVersionAt = 4, kLaneAt = 6, kChannelAt = 7, kJobAt = 8,
                      kIncarnationAt = 16, kFromAt = 20, kToAt = 24, kHeaderBytesAt = 28, kSequenceAt = 32,
                      kBulkBytesAt = 40;
static_assert(kBulkBytesAt + sizeof(std::uint64_t) == kWireBytes);
constexpr std::size_t kFirstBytes = sizeof(std::uint32_t);  // of the first cause's rank in a bye
static_assert(kByeBytesMost <= kHeaderBytesMost);

Rank get_rank(const std::byte* from) { return Rank{static_cast<std::int32_t>(get<std::uint32_t>(from))}; }
bool is_lane(std::uint8_t lane) { return lane <= static_cast<std::uint8_t>(Lane::kBulk); }

Refusal check(const WireReader& reader, std::span<const std::byte> bytes, Lane lane,
              std::uint64_t here_bytes) {
  if (bytes.size() < kWireBytes) return Refusal::kShort;
  const std::byte* at = bytes.data();
  if (get<std::uint32_t>(at + kMagicAt) != kWireMagic) return Refusal::kMagic;
  if (get<std::uint16_t>(at + kVersionAt) != kProtocolVersion) return Refusal::kVersion;
  if (get<std::uint8_t>(at + kLaneAt) != static_cast<std::uint8_t>(lane)) return Refusal::kLane;
  if (get<std::uint8_t>(at + kChannelAt) >= kChannels) return Refusal::kChannel;
  if (get<std::uint64_t>(at + kJobAt) != reader.job) return Refusal::kJob;
  if (get<std::uint32_t>(at + kIncarnationAt) != reader.incarnation) return Refusal::kIncarnation;
  const Rank from = get_rank(at + kFromAt);
  if (from.value < 0 || from.value >= reader.world || from == reader.self) return Refusal::kRank;
  if (get_rank(at + kToAt) != reader.self) return Refusal::kDestination;
  const auto header_bytes = get<std::uint32_t>(at + kHeaderBytesAt);
  if (header_bytes > kHeaderBytesMost || header_bytes != bytes.size() - kWireBytes) return Refusal::kLength;
  const auto bulk_bytes = get<std::uint64_t>(at + kBulkBytesAt);
  if (bulk_bytes > kBulkBytesMost || here_bytes != first_piece_bytes(bulk_bytes)) return Refusal::kLength;
  return Refusal::kNone;
}

}  // namespace

const char* refusal_text(Refusal refusal) {
  static constexpr std::array<const char*, kRefusals> kTexts{
      "nothing",
      "fewer bytes than a header has",
      "no frame of ours",
      "another version of the wire format",
      "another lane than it came on",
      "an unknown channel",
      "another job",
      "another incarnation of the job",
      "a rank that cannot be",
      "a frame for another rank",
      "lengths that do not fit",
      "a sequence number that was used or is far ahead",
      "a channel that nobody handles"};
  return kTexts[static_cast<std::size_t>(refusal)];
}

void write_wire(const WireHeader& header, std::byte* into) {
  put<std::uint32_t>(into + kMagicAt, kWireMagic);
  put<std::uint16_t>(into + kVersionAt, kProtocolVersion);
  put<std::uint8_t>(into + kLaneAt, static_cast<std::uint8_t>(header.lane));
  put<std::uint8_t>(into + kChannelAt, static_cast<std::uint8_t>(header.channel));
  put<std::uint64_t>(into + kJobAt, header.job);
  put<std::uint32_t>(into + kIncarnationAt, header.incarnation);
  put<std::uint32_t>(into + kFromAt, static_cast<std::uint32_t>(header.from.value));
  put<std::uint32_t>(into + kToAt, static_cast<std::uint32_t>(header.to.value));
  put<std::uint32_t>(into + kHeaderBytesAt, header.header_bytes);
  put<std::uint64_t>(into + kSequenceAt, header.sequence);
  put<std::uint64_t>(into + kBulkBytesAt, header.bulk_bytes);
}

WireReading read_wire(const WireReader& reader, std::span<const std::byte> bytes, Lane lane,
                      std::uint64_t here_bytes) {
  WireReading reading{.refusal = check(reader, bytes, lane, here_bytes)};
  if (reading.refusal != Refusal::kNone) return reading;
  const std::byte* at = bytes.data();
  reading.header = {.job = reader.job,
                    .incarnation = reader.incarnation,
                    .from = get_rank(at + kFromAt),
                    .to = reader.self,
                    .lane = lane,
                    .channel = static_cast<Channel>(get<std::uint8_t>(at + kChannelAt)),
                    .sequence = get<std::uint64_t>(at + kSequenceAt),
                    .header_bytes = get<std::uint32_t>(at + kHeaderBytesAt),
                    .bulk_bytes = get<std::uint64_t>(at + kBulkBytesAt)};
  reading.frame_header = bytes.subspan(kWireBytes);
  return reading;
}

void write_offset(std::uint64_t offset, std::byte* into) { put<std::uint64_t>(into, offset); }
std::uint64_t read_offset(std::span<const std::byte, kOffsetBytes> bytes) {
  return get<std::uint64_t>(bytes.data());
}

std::vector<std::byte> note_bytes(const Note& note) {
  const auto text = std::as_bytes(std::span(note.reason).first(std::min(note.reason.size(), kReasonBytesMost)));
  std::vector<std::byte> bytes(kNoteBytes + (text.empty() ? 0 : kFirstBytes + text.size()));
  put<std::uint8_t>(bytes.data(), static_cast<std::uint8_t>(note.kind));
  put<std::uint8_t>(bytes.data() + 1, static_cast<std::uint8_t>(note.lane));
  put<std::uint8_t>(bytes.data() + 2, static_cast<std::uint8_t>(note.channel));
  put<std::uint64_t>(bytes.data() + 8, note.sequence);
  if (text.empty()) return bytes;
  put<std::uint32_t>(bytes.data() + kNoteBytes, static_cast<std::uint32_t>(note.first.value));
  std::ranges::copy(text, bytes.begin() + kNoteBytes + kFirstBytes);
  return bytes;
}

bool read_note(std::span<const std::byte> bytes, Note& note) {
  if (bytes.size() < kNoteBytes) return false;
  const auto kind = get<std::uint8_t>(bytes.data()), lane = get<std::uint8_t>(bytes.data() + 1),
             channel = get<std::uint8_t>(bytes.data() + 2);
  if (kind < static_cast<std::uint8_t>(NoteKind::kHeartbeat) ||
      kind > static_cast<std::uint8_t>(NoteKind::kByeSeen))
    return false;
  if (!is_lane(lane) || channel >= kChannels) return false;
  note = {static_cast<NoteKind>(kind), static_cast<Lane>(lane), static_cast<Channel>(channel),
          get<std::uint64_t>(bytes.data() + 8)};
  if (bytes.size() == kNoteBytes) return true;
  if (note.kind != NoteKind::kBye || bytes.size() <= kNoteBytes + kFirstBytes || bytes.size() > kByeBytesMost) return false;
  note.first = get_rank(bytes.data() + kNoteBytes);
  if (note.first.value < -1) return false;
  for (const std::byte byte : bytes.subspan(kNoteBytes + kFirstBytes)) {
    const auto letter = static_cast<unsigned char>(byte);
    note.reason.push_back(letter < 0x20 || letter == 0x7f ? ' ' : static_cast<char>(letter));
  }
  return true;
}

}  // namespace troupe::comm
