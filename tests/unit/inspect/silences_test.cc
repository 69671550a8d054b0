#include "actors/inspect/silences.h"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

const Status kNoAnswer = absl::DeadlineExceededError("no answer within 1 s");
const Status kReset = absl::UnavailableError("rank 1 is down: connection reset");

TEST(Silences, BeginWithTheFirstQuestionThatWasLeftOpen) {
  Silences silences;
  EXPECT_EQ(silences.left_open(1, kNoAnswer, 100).since_ns, 100);
  const auto later = silences.left_open(1, kNoAnswer, 200);
  EXPECT_EQ(later.since_ns, 100);
  EXPECT_EQ(later.why, kNoAnswer);
  EXPECT_EQ(silences.left_open(2, kNoAnswer, 300).since_ns, 300) << "another rank's are its own";
  EXPECT_EQ(silences.left_open(1, kNoAnswer, 90).since_ns, 90) << "asked before, heard of later";
}

TEST(Silences, EndWithAnAnswer) {
  Silences silences;
  silences.left_open(1, kNoAnswer, 100);
  silences.answered(1);
  EXPECT_EQ(silences.left_open(1, kNoAnswer, 500).since_ns, 500);
}

TEST(Silences, OfARankThatWasLostBeginWithThatAndSayWhy) {
  Silences silences;
  silences.lost(1, kReset, 100);
  silences.lost(1, absl::UnavailableError("the store says so, too"), 150);
  silences.answered(1);  // was on its way
  const auto silence = silences.left_open(1, kNoAnswer, 900);
  EXPECT_EQ(silence.since_ns, 100);
  EXPECT_EQ(silence.why, kReset);
}

// Stopped first, then killed.
TEST(Silences, OfARankThatIsLostLaterHaveBegunBefore) {
  Silences silences;
  silences.left_open(1, kNoAnswer, 100);
  silences.lost(1, kReset, 700);
  const auto silence = silences.left_open(1, kNoAnswer, 900);
  EXPECT_EQ(silence.since_ns, 100);
  EXPECT_EQ(silence.why, kReset);
}

}  // namespace
}  // namespace troupe::actors
