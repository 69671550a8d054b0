// The bytes of questions and replies, and the shape of the tree.
#include <gtest/gtest.h>

#include <set>

#include "comm/inspect/tree.h"
#include "comm/inspect/wire.h"
#include "comm/transport.h"

namespace troupe::comm {
namespace {

std::vector<int> numbers(const std::vector<std::byte>& bytes) {
  std::vector<int> all;
  for (const std::byte byte : bytes) all.push_back(std::to_integer<int>(byte));
  return all;
}

// The bytes of WIRE.md, by hand.
TEST(InspectWire, HasTheDocumentedBytes) {
  EXPECT_EQ(numbers(encode(InspectHeader{.kind = InspectHeader::Kind::kReplies, .root = Rank(2), .ticket = 0x0102, .patience_ns = 0x0304}, "ab")),
            (std::vector<int>{1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 'a', 'b'}));
  std::vector<std::byte> bulk;
  pack({.rank = Rank(7), .status = ok(), .text = "abc"}, bulk);
  pack({.rank = Rank(1), .status = absl::UnavailableError("x"), .text = {}}, bulk);
  EXPECT_EQ(numbers(bulk), (std::vector<int>{7, 0, 0, 0, 0,  0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c',
                                        1, 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'x'}));
}

TEST(InspectWire, ReadsBackWhatWasWritten) {
  const std::vector<InspectReply> replies{{Rank(0), ok(), ""}, {Rank(5), absl::DeadlineExceededError("no answer within 0.8 s"), ""}, {Rank(6), ok(), "{}"}};
  std::vector<std::byte> bulk;
  std::size_t bytes = 0;
  for (const InspectReply& reply : replies) {
    pack(reply, bulk);
    bytes += packed_bytes(reply);
  }
  EXPECT_EQ(bulk.size(), bytes);
  const auto read = unpack(bulk);
  ASSERT_TRUE(read && read->size() == replies.size());
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ((*read)[i].rank, replies[i].rank);
    EXPECT_EQ((*read)[i].status, replies[i].status);
    EXPECT_EQ((*read)[i].text, replies[i].text);
  }
  for (std::size_t size = 1; size < bulk.size(); ++size) {
    EXPECT_EQ(unpack(std::span(bulk).first(size)).has_value(), size == 16 || size == 16 + 16 + 22) << size;
  }
  // A long reason is cut.
  bulk.clear();
  pack({.rank = Rank(1), .status = absl::UnavailableError(std::string(5'000, 'x')), .text = {}}, bulk);
  const auto cut = unpack(bulk);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->front().status.message().size(), kReasonBytesMost);
}

TEST(InspectWire, RefusesWhatWasNeverWritten) {
  std::vector<std::byte> header = encode(InspectHeader{.root = Rank(1)});
  EXPECT_TRUE(decode_inspect(header));
  EXPECT_FALSE(decode_inspect(std::span(header).first(23)));
  header[0] = std::byte{2};
  EXPECT_FALSE(decode_inspect(header));
  const auto with = [](std::size_t at, int value) {
    std::vector<std::byte> bulk;
    pack({.rank = Rank(1), .status = ok(), .text = std::string(2'000, 'x')}, bulk);
    bulk[at] = static_cast<std::byte>(value);
    return unpack(bulk).has_value();
  };
  EXPECT_TRUE(with(0, 1));
  EXPECT_FALSE(with(4, 17)) << "no such code";
  EXPECT_FALSE(with(7, 0xff)) << "a negative one";
  EXPECT_FALSE(with(4, 14)) << "too long a reason";
  EXPECT_FALSE(with(9, 0xff)) << "more than is there";
  EXPECT_FALSE(with(15, 0xff)) << "a negative number";
}

TEST(RankTree, HasEveryRankOnceWhoeverIsItsRoot) {
  for (const int world : {1, 2, 9, 10, 73, 74, 200}) {
    for (const int root : {0, world / 2, world - 1}) {
      const RankTree tree(Rank(root), world);
      std::set<Rank> seen;
      int height = 0;
      std::vector<Rank> level{Rank(root)};
      for (; !level.empty(); ++height) {
        std::vector<Rank> next;
        for (const Rank rank : level) {
          EXPECT_TRUE(seen.insert(rank).second);
          EXPECT_LE(tree.children(rank).size(), 8u);
          for (const Rank child : tree.children(rank)) {
            EXPECT_TRUE(tree.within(child, rank));
            EXPECT_FALSE(tree.within(rank, child));
            EXPECT_LT(tree.height(child), tree.height(rank));
            next.push_back(child);
          }
        }
        level = next;
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(world));
      EXPECT_EQ(tree.height(Rank(root)), height - 1);
      for (int top = 0; top < world; ++top) {
        const auto below = tree.subtree(Rank(top));
        for (int rank = 0; rank < world; ++rank) {
          EXPECT_EQ(tree.within(Rank(rank), Rank(top)), std::find(below.begin(), below.end(), Rank(rank)) != below.end());
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::comm
