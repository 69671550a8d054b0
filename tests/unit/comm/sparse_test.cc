// Sums that are mostly zero: the same bits as without leaving the zeros out, a share of the bytes, and peers that send nonsense.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <random>

#include "comm/collective/operation.h"
#include "comm/collective/sparse.h"
#include "comm/collective/wire.h"
#include "tests/unit/comm/collective_world.h"

namespace troupe::comm {
namespace {

using device::bfloat16, device::DType;

// By the bits, value by value.
template <class T>
bool holds_something(const T* values, std::int64_t count) {
  return std::any_of(reinterpret_cast<const unsigned char*>(values), reinterpret_cast<const unsigned char*>(values + count), [](auto byte) { return byte != 0; });
}

// Bytes of the blocks of elements [begin, end) that hold something; blocks are counted from `begin`.
template <class T>
std::int64_t bytes_with_something(const std::vector<T>& values, std::int64_t begin, std::int64_t end) {
  const std::int64_t block = 1024 / static_cast<std::int64_t>(sizeof(T));
  std::int64_t all = 0;
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t count = std::min(block, end - at);
    if (holds_something(values.data() + at, count)) all += count * static_cast<std::int64_t>(sizeof(T));
  }
  return all;
}

TEST(Sparse, PacksAndUnpacksWhatIsNotZero) {
  std::mt19937 random(3);
  for (int round = 0; round < 3'000; ++round) {
    const std::int64_t count = round < 8 ? round : static_cast<std::int64_t>(random() % (round % 7 == 0 ? 256 * 1024 + 1 : 9'000));
    std::vector<std::byte> chunk(static_cast<std::size_t>(count));
    std::int64_t right = 0;
    for (std::int64_t at = 0; at < count; at += 1024) {
      const std::int64_t size = std::min<std::int64_t>(1024, count - at);
      if (random() % 3 == 0) continue;
      right += size;
      chunk[static_cast<std::size_t>(at + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(size)))] = std::byte{0x80};  // one bit is something
      if (random() % 2 == 0) std::fill_n(chunk.begin() + at, size, static_cast<std::byte>(1 + random() % 255));
    }
    const BlockSet blocks = blocks_with_something(chunk.data(), count);
    ASSERT_EQ(packed_bytes(blocks, count), right) << count;
    std::vector<std::byte> packed(static_cast<std::size_t>(right));
    pack(packed.data(), chunk.data(), count, blocks);
    std::vector<std::byte> back(chunk.size(), std::byte{0xee});
    std::copy(packed.begin(), packed.end(), back.end() - right);
    unpack(back.data(), count, blocks);
    ASSERT_EQ(back, chunk) << count;
  }
}

TEST(Sparse, RefusesSetsOfBlocksThatThereAreNone) {
  BlockSet blocks;
  blocks.add(3);
  EXPECT_EQ(packed_bytes(blocks, 3 * 1024), -1);
  EXPECT_EQ(packed_bytes(blocks, 3 * 1024 + 1), 1);
  EXPECT_EQ(packed_bytes(blocks, 9 * 1024), 1024);
  EXPECT_EQ(packed_bytes(blocks, 256 * 1024), 1024);
  EXPECT_EQ(packed_bytes(blocks, 256 * 1024 + 1), -1);  // no set has so many
  EXPECT_EQ(packed_bytes(BlockSet{}, 256 * 1024 + 1), -1);
  EXPECT_EQ(packed_bytes(BlockSet{}, 0), 0);
  blocks.add(255);
  EXPECT_EQ(packed_bytes(blocks, 255 * 1024), -1);
}

// Rows of 256 of which few hold something, not the same at all members; where `twin` has minus that, the sum of two members is 0. Some
// zeros are negative.
template <class T>
std::vector<T> mostly_zeros(std::int64_t count, unsigned seed, bool twin) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<std::size_t>(count), T(0.0f));
  for (std::int64_t at = 0; at < count; at += 256) {
    const auto draw = random() % 40;
    const auto value = [&](std::int64_t i) {
      const auto some = static_cast<float>((static_cast<std::uint32_t>(i) * 2654435761u + seed) % 20011u) * 1e-3f - 10;
      if (draw == 0) return some;
      if (draw == 1) return twin ? -1.5f : 1.5f;
      return draw == 2 && i % 2 == 0 ? -0.0f : 0.0f;
    };
    for (std::int64_t i = at; i < std::min(count, at + 256); ++i) values[static_cast<std::size_t>(i)] = T(value(i));
  }
  return values;
}

template <class T>
void check_sparse_sums(CollectiveKind kind) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    World world(ranks);
    std::int64_t id = 0;
    for (const std::int64_t size : {0, 1, 3'000, 4'097, 131'073, 900'001}) {
      SCOPED_TRACE(testing::Message() << name(kind) << ", " << ranks << " ranks, " << size << " x " << device::name(device::dtype_of<T>()));
      std::vector<std::vector<T>> values;
      for (int rank = 0; rank < ranks; ++rank) values.push_back(mostly_zeros<T>(size, static_cast<unsigned>(size + rank / 2), rank % 2 == 1));
      const auto before = values;
      const auto expected = folded(values);
      const Parts parts = Parts::equal(size, ranks, 64);
      const bool to_all = kind == CollectiveKind::kAllReduce && size * static_cast<std::int64_t>(sizeof(T)) <= Operation::kSmallBytes;
      std::int64_t right = 0, dense = 0;
      for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
          if (from == to) continue;
          const auto& addend = before[static_cast<std::size_t>(from)];
          right += to_all ? bytes_with_something(addend, 0, size) : bytes_with_something(addend, parts.begin(to), parts.end(to));
          if (kind == CollectiveKind::kAllReduce && !to_all) right += bytes_with_something(expected, parts.begin(from), parts.end(from));
          dense += parts.size(to) * static_cast<std::int64_t>(sizeof(T)) * (kind == CollectiveKind::kAllReduce ? 2 : 1);
        }
      }
      const std::int64_t sent_before = world.sent_bytes();
      ++id;
      std::vector<std::future<Status>> ends;
      for (int i = 0; i < ranks; ++i) {
        const int rank = (i + static_cast<int>(id)) % ranks;
        ends.push_back(world.start(rank, id, {.kind = kind, .type = device::dtype_of<T>(), .data = bytes(values[static_cast<std::size_t>(rank)]), .parts = parts, .sparse = true, .what = "test"}));
      }
      for (auto& end : ends) ASSERT_TRUE(result(end).ok());
      EXPECT_EQ(world.sent_bytes() - sent_before, right);
      if (size > 100'000) {
        EXPECT_LE(right * 4, dense);
      }
      for (int rank = 0; rank < ranks; ++rank) {
        for (int part = 0; part < ranks; ++part) {
          const auto at = static_cast<std::size_t>(rank);
          const auto& should = kind == CollectiveKind::kAllReduce || part == rank ? expected : before[at];
          EXPECT_TRUE(parts.size(part) == 0 || std::memcmp(values[at].data() + parts.begin(part), should.data() + parts.begin(part),
                                                           static_cast<std::size_t>(parts.size(part)) * sizeof(T)) == 0)
              << "at rank " << rank << " part " << part;
        }
      }
    }
  }
}

TEST(Sparse, SumsHaveTheBitsOfDenseOnesAndSendWhatIsNotZero) {
  for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter}) {
    check_sparse_sums<float>(kind);
    check_sparse_sums<bfloat16>(kind);
  }
}

// IEEE 754: -0 + 0 is 0, -0 + -0 is -0. So a block of -0 must travel, and one of 0 must be added.
TEST(Sparse, AMinusZeroIsSomething) {
  World world(2);
  constexpr std::int64_t kSize = 2 * 3 * 256;
  std::vector<std::vector<float>> values(2, std::vector<float>(kSize, 0.0f));
  for (std::int64_t part = 0; part < 2; ++part) {
    std::fill_n(values[0].begin() + part * 768, 512, -0.0f);        // blocks 0, 1 of either part
    std::fill_n(values[1].begin() + part * 768 + 256, 512, -0.0f);  // 1, 2
  }
  std::vector<std::future<Status>> ends;
  for (int rank = 0; rank < 2; ++rank) {
    ends.push_back(world.start(rank, 1, {.kind = CollectiveKind::kReduceScatter, .data = bytes(values[static_cast<std::size_t>(rank)]), .parts = Parts::equal(kSize, 2), .sparse = true}));
  }
  for (auto& end : ends) ASSERT_TRUE(result(end).ok());
  EXPECT_EQ(world.sent_bytes(), 4 * 1024);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 768; ++i) {
      const float sum = values[rank][rank * 768 + i];
      EXPECT_EQ(sum, 0.0f);
      ASSERT_EQ(std::signbit(sum), i / 256 == 1) << "rank " << rank << ", element " << i;
    }
  }
}

TEST(Sparse, MembersThatDisagreeAreNamed) {
  World world(2);
  std::vector<std::vector<float>> values(2, std::vector<float>(50'000, 1));
  std::vector<std::future<Status>> ends;
  for (int rank = 0; rank < 2; ++rank) {
    ends.push_back(world.start(rank, 1, {.kind = CollectiveKind::kReduceScatter, .data = bytes(values[static_cast<std::size_t>(rank)]), .parts = Parts::equal(50'000, 2), .sparse = rank == 1}));
  }
  for (auto& end : ends) {
    const Status status = result(end);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    const std::string text(status.message());
    EXPECT_NE(text.find("sparse reduce-scatter of 50000"), std::string::npos) << text;
    EXPECT_NE(text.find(" has reduce-scatter of 50000"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  }
}

// Rank 0 sums with one that sends the frame of its addend as it likes.
class Impostor {
 public:
  static constexpr std::int64_t kElements = 3'000;  // of rank 0's part: 12 blocks, the last one of 736 bytes

  Impostor() : hub_(2), honest_(hub_.transport(Rank(0))), other_(hub_.transport(Rank(1))), engine_(*honest_) {
    engine_.add_group(kAll, {Rank(0), Rank(1)});
    other_->handle(Channel::kCollectives, [](const Arrival&) {});
    EXPECT_TRUE(honest_->start().ok());
    EXPECT_TRUE(other_->start().ok());
  }
  ~Impostor() {
    other_->stop();
    honest_->stop();
  }
  // All elements of rank 0's sum are its own, and nothing is to be sent to rank 1.
  Status sums(CollectiveHeader header, const std::vector<std::byte>& bulk) {
    header.group = kAll;
    header.kind = CollectiveKind::kReduceScatter;
    header.phase = Phase::kAddend;
    header.from = 1;
    header.elements = kElements;
    header.sparse = true;
    auto promise = std::make_shared<std::promise<Status>>();
    auto ended = promise->get_future();
    Parts parts;
    parts.boundaries = {0, kElements, kElements};
    engine_.start(kAll, OperationId(0), {.kind = CollectiveKind::kReduceScatter, .data = bytes(sum), .parts = parts, .sparse = true, .what = "fuzz"},
                  [promise](const Status& status) { promise->set_value(status); });
    other_->send({.to = Rank(0), .channel = Channel::kCollectives, .lane = Lane::kBulk, .header = encode(header), .bulk = bulk});
    return result(ended);
  }
  std::vector<float> sum = std::vector<float>(kElements, 1.0f);

 private:
  LocalHub hub_;
  std::unique_ptr<Transport> honest_, other_;
  CollectiveEngine engine_;
};

TEST(Sparse, ASetThatIsNotOfTheBulkIsNamed) {
  std::mt19937_64 random(5);
  int right = 0, wrong = 0;
  for (int round = 0; round < 400; ++round) {
    CollectiveHeader header{.count = Impostor::kElements};
    std::int64_t blocks = 0;
    bool good = true;
    if (round % 10 != 0) {
      header.blocks.emplace().words[0] = random() & (round % 3 == 0 ? 0x1fffu : 0xfffu);
      if (round % 11 == 0) header.blocks->words[1 + random() % 3] = random();
      for (int i = 0; i < 12; ++i) blocks += header.blocks->has(i) ? (i == 11 ? 736 : 1024) : 0;
      good = (header.blocks->words[0] >> 12) == 0 && header.blocks->words[1] == 0 && header.blocks->words[2] == 0 && header.blocks->words[3] == 0;
    } else {
      good = false;  // no set
    }
    if (round % 4 == 0) {
      blocks = static_cast<std::int64_t>(random() % 14'000);
      good = false;  // of 14 thousand lengths one would be right
    }
    std::vector<std::byte> bulk(static_cast<std::size_t>(blocks));
    for (std::int64_t at = 3; at < blocks; at += 4) bulk[static_cast<std::size_t>(at)] = std::byte{0x40};  // 2.0
    Impostor impostor;
    const Status status = impostor.sums(header, bulk);
    ++(good ? right : wrong);
    ASSERT_EQ(status.ok(), good) << "round " << round << ": " << status;
    if (!good) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_NE(std::string(status.message()).find("rank 1 sent"), std::string::npos) << status;
      continue;
    }
    for (std::int64_t i = 0; i < Impostor::kElements; ++i) ASSERT_EQ(impostor.sum[static_cast<std::size_t>(i)], header.blocks->has(i / 256) ? 3.0f : 1.0f);
  }
  EXPECT_GT(right, 100);
  EXPECT_GT(wrong, 100);
}

TEST(Sparse, AFrameWithMoreElementsThanThereAreIsNamed) {
  for (const std::int64_t count : {Impostor::kElements - 1, Impostor::kElements + 1, std::int64_t{1} << 62, std::int64_t{0}}) {
    Impostor impostor;
    CollectiveHeader header{.count = count};
    header.blocks.emplace();
    const Status status = impostor.sums(header, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(std::string(status.message()).find("rank 1 sent"), std::string::npos) << status;
  }
}

TEST(CollectiveWire, TellsWhichBlocksAFrameHas) {
  CollectiveHeader header{.group = GroupId(3), .operation = OperationId(9), .kind = CollectiveKind::kAllReduce, .phase = Phase::kAddend, .elements = 700, .count = 700, .sparse = true};
  header.blocks.emplace().add(200);
  const auto bytes = encode(header);
  ASSERT_EQ(bytes.size(), kCollectiveHeaderBytes + kBlockSetBytes);
  const auto read = decode_collective(bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->sparse);
  ASSERT_TRUE(read->blocks);
  EXPECT_EQ(read->blocks->words, header.blocks->words);
  for (std::size_t length = kCollectiveHeaderBytes; length < bytes.size(); ++length) {
    const auto cut = decode_collective(std::span(bytes).first(length));
    ASSERT_TRUE(cut);
    EXPECT_FALSE(cut->blocks) << length;
  }
  header.sparse = false;
  header.blocks.reset();
  const auto dense = decode_collective(encode(header));
  ASSERT_TRUE(dense);
  EXPECT_FALSE(dense->sparse || dense->blocks);
}

}  // namespace
}  // namespace troupe::comm
