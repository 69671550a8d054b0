// The parts of the UCX filling that need no UCX: wire format, order of frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "comm/ucx/sequencer.h"
#include "comm/ucx/wire.h"

namespace troupe::comm {
namespace {

constexpr WireReader kReader{.job = 0x1122334455667788, .incarnation = 3, .self = Rank{1}, .world = 4};

WireHeader good() {
  return {.job = kReader.job,
          .incarnation = 3,
          .from = Rank{2},
          .to = Rank{1},
          .lane = Lane::kBulk,
          .channel = Channel::kEdges,
          .sequence = 0x0102030405060708,
          .header_bytes = 5,
          .bulk_bytes = 1u << 18};
}

std::vector<std::byte> bytes_of(const WireHeader& header) {
  std::vector<std::byte> bytes(kWireBytes + header.header_bytes, std::byte{7});
  write_wire(header, bytes.data());
  return bytes;
}

Refusal refusal_of(const WireHeader& header) {
  return read_wire(kReader, bytes_of(header), header.lane, header.bulk_bytes).refusal;
}

TEST(UcxWire, ReadsBackWhatWasWritten) {
  const auto bytes = bytes_of(good());
  const WireReading reading = read_wire(kReader, bytes, Lane::kBulk, 1u << 18);
  EXPECT_EQ(reading.refusal, Refusal::kNone);
  EXPECT_EQ(reading.header, good());
  EXPECT_EQ(reading.frame_header.size(), 5u);
}

// The bytes of WIRE.md, by hand: another build or machine must write the same.
TEST(UcxWire, HasTheDocumentedBytes) {
  const std::vector<int> expected{0x54, 0x52, 0x50, 0x46, 4, 0, 1,  2, 0x88, 0x77, 0x66, 0x55,
                                  0x44, 0x33, 0x22, 0x11, 3, 0, 0,  0, 2,    0,    0,    0,
                                  1,    0,    0,    0,    5, 0, 0,  0, 8,    7,    6,    5,
                                  4,    3,    2,    1,    0, 0, 4,  0, 0,    0,    0,    0};
  const auto bytes = bytes_of(good());
  for (std::size_t i = 0; i < kWireBytes; ++i)
    EXPECT_EQ(static_cast<int>(bytes[i]), expected[i]) << "byte " << i;
}

TEST(UcxWire, RefusesWhatIsNotForThisRankOfThisJob) {
  auto with = [](auto change) {
    WireHeader header = good();
    change(header);
    return refusal_of(header);
  };
  EXPECT_EQ(with([](WireHeader&) {}), Refusal::kNone);
  EXPECT_EQ(with([](WireHeader& h) { h.job ^= 1; }), Refusal::kJob);
  EXPECT_EQ(with([](WireHeader& h) { h.incarnation = 2; }), Refusal::kIncarnation);
  EXPECT_EQ(with([](WireHeader& h) { h.from = Rank{4}; }), Refusal::kRank);
  EXPECT_EQ(with([](WireHeader& h) { h.from = Rank{-1}; }), Refusal::kRank);
  EXPECT_EQ(with([](WireHeader& h) { h.from = Rank{1}; }), Refusal::kRank);
  EXPECT_EQ(with([](WireHeader& h) { h.to = Rank{0}; }), Refusal::kDestination);
  EXPECT_EQ(with([](WireHeader& h) { h.channel = static_cast<Channel>(kChannels); }), Refusal::kChannel);
  EXPECT_EQ(with([](WireHeader& h) { h.header_bytes = kHeaderBytesMost + 1; }), Refusal::kLength);
}

TEST(UcxWire, RefusesWhatTheLinkDeliveredDifferently) {
  auto bytes = bytes_of(good());
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kControl, 1u << 18).refusal, Refusal::kLane);
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kBulk, (1u << 18) - 1).refusal, Refusal::kLength);
  EXPECT_EQ(read_wire(kReader, std::span(bytes).first(kWireBytes - 1), Lane::kBulk, 1u << 18).refusal,
            Refusal::kShort);
  EXPECT_EQ(read_wire(kReader, std::span(bytes).first(kWireBytes), Lane::kBulk, 1u << 18).refusal,
            Refusal::kLength);
  bytes.push_back(std::byte{0});
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kBulk, 1u << 18).refusal, Refusal::kLength);
  bytes[0] ^= std::byte{1};
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kBulk, 1u << 18).refusal, Refusal::kMagic);
  bytes[0] ^= std::byte{1};
  bytes[4] ^= std::byte{2};
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kBulk, 1u << 18).refusal, Refusal::kVersion);
}

TEST(UcxWire, ALongBulkComesWithItsFirstPiece) {
  WireHeader header = good();
  header.bulk_bytes = kWholeBytesMost + 1;
  const auto bytes = bytes_of(header);
  const WireReading reading = read_wire(kReader, bytes, Lane::kBulk, kPieceBytes);
  EXPECT_EQ(reading.refusal, Refusal::kNone);
  EXPECT_EQ(reading.header, header);
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kBulk, kPieceBytes - 1).refusal, Refusal::kLength);
  EXPECT_EQ(read_wire(kReader, bytes, Lane::kBulk, header.bulk_bytes).refusal, Refusal::kLength);
}

TEST(UcxWire, SurvivesRandomBytes) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 100'000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    EXPECT_NE(read_wire(kReader, bytes, Lane::kControl, random() % 3).refusal, Refusal::kNone);
    Note note;
    read_note(bytes, note);
  }
}

// Of a good frame with some bytes changed, only those bytes get through that a receiver cannot know: channel,
// rank of a member, sequence.
TEST(UcxWire, FindsDamageInEveryFieldItKnows) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 100'000; ++i) {
    auto bytes = bytes_of(good());
    const std::size_t at = random() % kWireBytes;
    bytes[at] ^= static_cast<std::byte>(1 + random() % 255);
    const WireReading reading = read_wire(kReader, bytes, Lane::kBulk, 1u << 18);
    const bool open_field = at == 7 || at == 20 || (at >= 32 && at < 40);
    if (!open_field) {
      EXPECT_NE(reading.refusal, Refusal::kNone) << "byte " << at;
    }
    if (reading.refusal == Refusal::kNone) {
      EXPECT_LT(static_cast<int>(reading.header.channel), kChannels);
      EXPECT_LT(reading.header.from.value, kReader.world);
    }
  }
}

TEST(UcxWire, NotesReadBack) {
  const Note note{NoteKind::kBulkRefused, Lane::kBulk, Channel::kCollectives, 77};
  std::vector<std::byte> bytes = note_bytes(note);
  Note read;
  ASSERT_TRUE(read_note(bytes, read));
  EXPECT_EQ(read, note);
  bytes[0] = std::byte{99};
  EXPECT_FALSE(read_note(bytes, read));
  EXPECT_FALSE(read_note(std::span(bytes).first(8), read));
}

TEST(UcxWire, AByeSaysWhyWithinItsLimits) {
  Note bye{.kind = NoteKind::kBye, .first = Rank{3}, .reason = "the disk\nis \x1b[1mfull"}, read;
  ASSERT_TRUE(read_note(note_bytes(bye), read));
  EXPECT_EQ(read.first, Rank{3});
  EXPECT_EQ(read.reason, "the disk is  [1mfull") << "it is written to a terminal";
  bye.reason = std::string(5000, 'x');
  ASSERT_TRUE(read_note(note_bytes(bye), read));
  EXPECT_EQ(read.reason, std::string(kReasonBytesMost, 'x'));
  auto bytes = note_bytes(bye);
  EXPECT_EQ(bytes.size(), kByeBytesMost);
  bytes.push_back(std::byte{'x'});
  EXPECT_FALSE(read_note(bytes, read)) << "too long";
  EXPECT_FALSE(read_note(std::span(bytes).first(kNoteBytes + 4), read)) << "a first cause without text";
  bytes[0] = std::byte{1};
  EXPECT_FALSE(read_note(std::span(bytes).first(100), read)) << "a heartbeat has none";
}

TEST(UcxWire, NotesSurviveDamage) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 100'000; ++i) {
    auto bytes = note_bytes({.kind = NoteKind::kBye, .first = Rank{1}, .reason = std::string(random() % 60, 'r')});
    for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(random() % (bytes.size() + 3));
    Note read;
    if (!read_note(bytes, read)) continue;
    EXPECT_GE(read.first.value, -1);
    EXPECT_TRUE(read.reason.empty() || read.kind == NoteKind::kBye);
    for (const char letter : read.reason) EXPECT_FALSE(letter >= 0 && letter < ' ');
  }
}

TEST(UcxSequencer, DeliversInOrder) {
  std::mt19937 random(13);
  std::vector<int> numbers(500);
  for (int i = 0; i < 500; ++i) numbers[static_cast<std::size_t>(i)] = i;
  std::shuffle(numbers.begin(), numbers.end(), random);
  Sequencer<int> sequencer;
  std::vector<int> came;
  for (const int number : numbers) {
    EXPECT_EQ(sequencer.offer(static_cast<std::uint64_t>(number), int{number},
                              [&](int item) { came.push_back(item); }),
              Sequencer<int>::Verdict::kTaken);
  }
  ASSERT_EQ(came.size(), 500u);
  EXPECT_TRUE(std::is_sorted(came.begin(), came.end()));
}

TEST(UcxSequencer, RefusesNumbersThatWereUsed) {
  Sequencer<int> sequencer;
  auto ignore = [](int) {};
  sequencer.offer(0, 0, ignore);
  sequencer.offer(2, 2, ignore);
  EXPECT_EQ(sequencer.offer(0, 0, ignore), Sequencer<int>::Verdict::kUsed);
  EXPECT_EQ(sequencer.offer(2, 2, ignore), Sequencer<int>::Verdict::kUsed);
}

TEST(UcxSequencer, HoldsBackNoMoreThanItsLimit) {
  Sequencer<int> sequencer;
  auto ignore = [](int) {};
  for (std::uint64_t i = 1; i <= Sequencer<int>::kEarlyMost; ++i)
    ASSERT_EQ(sequencer.offer(i, 0, ignore), Sequencer<int>::Verdict::kTaken);
  EXPECT_EQ(sequencer.offer(Sequencer<int>::kEarlyMost + 1, 0, ignore), Sequencer<int>::Verdict::kTooMany);
}

// What the others wait for is taken when they are as many as may wait; what is refused stays the caller's.
TEST(UcxSequencer, TakesTheMissingFrameWhenAllItsPlacesAreFull) {
  Sequencer<std::unique_ptr<int>> sequencer;
  std::uint64_t delivered = 0;
  const auto count = [&](std::unique_ptr<int> item) {
    EXPECT_NE(item, nullptr);
    ++delivered;
  };
  using Verdict = Sequencer<std::unique_ptr<int>>::Verdict;
  constexpr std::uint64_t kMost = 4096;  // WIRE.md
  for (std::uint64_t i = 1; i <= kMost; ++i) ASSERT_EQ(sequencer.offer(i, std::make_unique<int>(), count), Verdict::kTaken);
  auto more = std::make_unique<int>();
  EXPECT_EQ(sequencer.offer(kMost + 1, std::move(more), count), Verdict::kTooMany);
  EXPECT_NE(more, nullptr);
  EXPECT_EQ(sequencer.offer(kMost, std::move(more), count), Verdict::kUsed);
  EXPECT_NE(more, nullptr);
  EXPECT_EQ(delivered, 0u);
  EXPECT_EQ(sequencer.offer(0, std::make_unique<int>(), count), Verdict::kTaken);
  EXPECT_EQ(delivered, kMost + 1);
  EXPECT_EQ(sequencer.offer(kMost + 1, std::move(more), count), Verdict::kTaken);
  EXPECT_EQ(delivered, kMost + 2);
}

}  // namespace
}  // namespace troupe::comm
