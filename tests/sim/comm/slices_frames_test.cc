// What a fetch of a slice does with each answer that somebody may send.
#include <gtest/gtest.h>

#include "comm/slices/slices.h"
#include "tests/sim/comm/by_hand.h"

namespace troupe::test {
namespace {

// Rank 0 fetches a slice of rank 1.
class Fetcher : public ByHand {
 public:
  Fetcher() : ByHand(3, comm::Channel::kSlices), slices(transport()) {
    start();
    slices.fetch(Rank(1), comm::SliceId(4), 9, into, [this](Status status) {
      EXPECT_FALSE(end) << "ended twice";
      end = std::move(status);
    });
    run();
    EXPECT_EQ(of(1).size(), 1u);
    question = of(1).front().header;
  }
  ~Fetcher() { transport().stop(); }
  // The question with a bulk is its answer, but for the kind.
  Sent& answer(int from, std::byte value) {
    auto header = question;
    header[0] = std::byte{1};
    return send(from, header, std::vector<std::byte>(into.size(), value));
  }

  comm::Slices slices;
  std::vector<std::byte> into = std::vector<std::byte>(100), question;
  std::optional<Status> end;
};

TEST(SlicesFrames, OnlyTheOwnerAnswers) {
  Fetcher asker;
  const auto& forged = asker.answer(2, std::byte{2});
  asker.run();
  EXPECT_TRUE(forged.end && absl::IsCancelled(*forged.end));
  EXPECT_FALSE(asker.end);
  asker.answer(1, std::byte{1});
  asker.run();
  EXPECT_EQ(asker.end, ok());
  EXPECT_EQ(asker.into, std::vector<std::byte>(100, std::byte{1}));
}

TEST(SlicesFrames, ASecondAnswerChangesNothing) {
  Fetcher asker;
  const auto &first = asker.answer(1, std::byte{1}), &second = asker.answer(1, std::byte{2});
  asker.run();
  EXPECT_EQ(asker.end, ok());
  EXPECT_EQ(first.end, ok());
  EXPECT_TRUE(second.end && absl::IsCancelled(*second.end));
  EXPECT_EQ(asker.into, std::vector<std::byte>(100, std::byte{1}));
}

// The transport still writes: the memory is its asker's again when that has ended, not before.
TEST(SlicesFrames, AFetchThatIsUnderWayEndsOnce) {
  Fetcher asker;
  bool came = false;
  asker.answer(1, std::byte{1});
  for (int events = 0; events < 1'000 && !came; ++events) {
    if (asker.network->ready_at_ns() > asker.clock().now_ns()) asker.clock().advance(asker.network->ready_at_ns() - asker.clock().now_ns());
    asker.network->step();
    came = asker.transport().counters().frames_received > 0;
  }
  ASSERT_TRUE(came);
  ASSERT_FALSE(asker.end);
  asker.on(0, [&] {
    asker.slices.peer_down(Rank(1), absl::UnavailableError("rank 1 is down"));
    EXPECT_FALSE(asker.end);
  });
  asker.run();
  EXPECT_EQ(asker.end, ok());
}

}  // namespace
}  // namespace troupe::test
