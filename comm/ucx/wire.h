// The bytes in front of every frame between two processes, and the check of what arrives. WIRE.md has the
// layout.
//
// Threads: any; pure. Errors: a reading says why it refuses; nothing of a refused header may be used.
// Invariants: what was written reads back (UcxWire.ReadsBackWhatWasWritten); no bytes are read as a frame of
// another job, rank or incarnation (UcxWire.Refuses*), nor do random ones crash
// (UcxWire.SurvivesRandomBytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "runtime/base/ids.h"

namespace troupe::comm {

inline constexpr std::uint32_t kWireMagic = 0x46505254;  // "TRPF"
inline constexpr std::size_t kWireBytes = 48;
inline constexpr std::uint64_t kBulkBytesMost = std::uint64_t{1} << 62;
// A longer bulk goes in pieces: UCX does not return from progress before all it can move has moved, over tcp
// within a machine for as long as both sides keep up, and control would wait. Over tcp a piece is one segment
// (ucx_worker.cc); up to four times as much goes as one: fewer trips.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{512} << 10, kWholeBytesMost = 4 * kPieceBytes;
constexpr std::uint64_t first_piece_bytes(std::uint64_t bulk_bytes) {
  return bulk_bytes <= kWholeBytesMost ? bulk_bytes : kPieceBytes;
}
inline constexpr std::size_t kOffsetBytes = 8;  // the frame header of a piece but the first

struct WireHeader {
  std::uint64_t job = 0;
  std::uint32_t incarnation = 0;  // the job's: a number of all its ranks' addresses, so another after a restart
  Rank from, to;
  Lane lane = Lane::kControl;
  Channel channel = Channel::kTest;
  std::uint64_t sequence = 0;  // of frames of this channel and lane between these two
  std::uint32_t header_bytes = 0;
  std::uint64_t bulk_bytes = 0;
  friend bool operator==(const WireHeader&, const WireHeader&) = default;
};

enum class Refusal : std::uint8_t {
  kNone,
  kShort,
  kMagic,
  kVersion,
  kLane,
  kChannel,
  kJob,
  kIncarnation,
  kRank,
  kDestination,
  kLength,
  kSequence,
  kNoHandler
};
inline constexpr int kRefusals = 13;
const char* refusal_text(Refusal refusal);

// Who reads: frames for anybody else are refused.
struct WireReader {
  std::uint64_t job = 0;
  std::uint32_t incarnation = 0;
  Rank self;
  int world = 0;
};

struct WireReading {
  Refusal refusal = Refusal::kNone;
  WireHeader header;
  std::span<const std::byte> frame_header{};  // into the bytes read
};

// Writes kWireBytes.
void write_wire(const WireHeader& header, std::byte* into);
// `bytes`: wire header and frame header; `lane` and `here_bytes`, how much of the bulk came along: as the
// link below delivered them.
WireReading read_wire(const WireReader& reader, std::span<const std::byte> bytes, Lane lane,
                      std::uint64_t here_bytes);
void write_offset(std::uint64_t offset, std::byte* into);
std::uint64_t read_offset(std::span<const std::byte, kOffsetBytes> bytes);

// What transports tell each other on Channel::kTransport: the frame header of such a frame.
enum class NoteKind : std::uint8_t {
  kHeartbeat = 1,
  kBulkRefused = 2,
  kRefusalSeen = 3,
  kBye = 4,
  kByeSeen = 5
};
inline constexpr std::size_t kNoteBytes = 16;
inline constexpr std::size_t kByeBytesMost = kNoteBytes + 4 + kReasonBytesMost;

struct Note {
  NoteKind kind = NoteKind::kHeartbeat;
  Lane lane = Lane::kControl;  // of the frame that is meant
  Channel channel = Channel::kTransport;
  std::uint64_t sequence = 0;
  // Of a bye that is not the end of a job: the first cause, its text cut to kReasonBytesMost and, when read, without control characters.
  // Rank -1: none of the job's. Without reason: there is none.
  Rank first{-1};
  std::string reason{};
  friend bool operator==(const Note&, const Note&) = default;
};

std::vector<std::byte> note_bytes(const Note& note);
// False: no note.
bool read_note(std::span<const std::byte> bytes, Note& note);

}  // namespace troupe::comm
