// What the store keeps and whom it answers, without sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/join/store_board.h"
#include "comm/join/store_protocol.h"

namespace troupe::comm {
namespace {

class Board : public testing::Test {
 protected:
  static constexpr Deadline kNow{};
  // What was answered so far: the request's id and its code.
  std::vector<std::pair<std::uint32_t, int>> answers;
  StoreBoard board{2, [this](const std::vector<StoreBoard::To>& to, const std::string& frame) {
                     for (const auto& [rank, id] : to) {
                       const std::string whole = protocol::with_id(frame, id);
                       FrameReader reader(std::string_view(whole).substr(protocol::kLengthBytes));
                       const std::uint32_t said = reader.u32();
                       answers.emplace_back(said, reader.i32());
                     }
                   }};

  void take(int rank, FrameWriter& writer, Deadline now = kNow) {
    const std::string frame = std::move(writer).finish();
    FrameReader reader(std::string_view(frame).substr(4));
    EXPECT_TRUE(board.take(Rank(rank), reader, now));
  }
  void set(std::uint32_t id, const std::string& key, const std::string& value) {
    FrameWriter writer(protocol::kSet);
    take(0, writer.u32(id).u32(0).text(key).text(value));
  }
  void get(int rank, std::uint32_t id, const std::string& key, std::uint32_t patience_ms = 1'000) {
    FrameWriter writer(protocol::kGet);
    take(rank, writer.u32(id).u32(patience_ms).text(key));
  }
  int code_of(std::uint32_t id) const {
    int code = -1;
    for (const auto& [answered, status] : answers) code = answered == id ? status : code;
    return code;
  }
};

TEST_F(Board, OneWhoWaitsIsAnsweredOnce) {
  get(1, 5, "address");
  EXPECT_TRUE(answers.empty());
  set(6, "address", "a");
  set(7, "address", "b");
  EXPECT_THAT(answers, testing::ElementsAre(std::pair(5u, 0), std::pair(6u, 0), std::pair(7u, 0)));
}

TEST_F(Board, HoldsNoMoreThanItsLimitAndCountsAValueOnce) {
  const std::string value(protocol::kValueBytesMost, 'x');
  const auto fit = static_cast<std::uint32_t>(protocol::kStoreBytesMost / (value.size() + 8));
  for (std::uint32_t i = 0; i < 4 * fit; ++i) set(i, "the same", value);  // said again it takes no more room
  EXPECT_EQ(code_of(4 * fit - 1), 0);
  std::uint32_t id = 4 * fit;
  while (id < 6 * fit && (id == 4 * fit || code_of(id - 1) == 0)) set(id, std::to_string(id), value), ++id;
  EXPECT_EQ(code_of(id - 1), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_NEAR(id - 4 * fit, fit, 2);
}

// Of three, two wait for the third: each says so, also after the other has given up.
TEST(StoreBoard, NamesWhoHasNotComeAndNotWhoGaveUpBefore) {
  std::vector<std::string> said;
  StoreBoard board(3, [&](const std::vector<StoreBoard::To>&, const std::string& frame) {
    FrameReader reader(std::string_view(frame).substr(protocol::kLengthBytes));
    reader.u32();
    reader.i32();
    said.emplace_back(reader.text());
  });
  const auto come = [&](int rank, std::uint32_t patience_ms) {
    FrameWriter writer(protocol::kExchange);
    const std::string frame = std::move(writer.u32(1).u32(patience_ms).text("address")).finish();
    FrameReader reader(std::string_view(frame).substr(protocol::kLengthBytes));
    EXPECT_TRUE(board.take(Rank(rank), reader, Deadline{}));
  };
  come(0, 100);
  come(1, 100);
  board.expire(Deadline{} + std::chrono::milliseconds(100));
  come(0, 200);
  board.expire(Deadline{} + std::chrono::milliseconds(200));
  EXPECT_THAT(said, testing::Each("waited for the address of rank 2 of 3"));
  EXPECT_EQ(said.size(), 3u);
  said.clear();
  come(2, 100);  // all have been there, but not at once
  come(0, 100);
  board.expire(Deadline{} + std::chrono::milliseconds(100));
  EXPECT_THAT(said, testing::Contains("waited for the address of rank 1 of 3"));
}

TEST_F(Board, ADeadlineThatHasComeIsOver) {
  get(1, 5, "address", 200);
  EXPECT_EQ(board.next_deadline(), kNow + std::chrono::milliseconds(200));
  board.expire(kNow + std::chrono::milliseconds(199));
  EXPECT_TRUE(answers.empty());
  board.expire(board.next_deadline());  // as the server's loop asks: else it would ask again without an end
  EXPECT_EQ(code_of(5), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(board.next_deadline(), Deadline::max());
}

}  // namespace
}  // namespace troupe::comm
