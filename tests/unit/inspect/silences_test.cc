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

// It may have answered for hours, had anybody asked.
TEST(Silences, AreForgottenWhereNobodyAsks) {
  Silences silences;
  silences.left_open(1, kNoAnswer, 100);
  silences.left_open(1, kNoAnswer, Silences::kForgotten_ns);
  const std::int64_t late = 2 * Silences::kForgotten_ns;
  EXPECT_EQ(silences.left_open(1, kNoAnswer, late).since_ns, 100) << "it was found silent meanwhile";
  EXPECT_EQ(silences.left_open(1, kNoAnswer, 10 * late).since_ns, 10 * late);
  silences.lost(1, kReset, 20 * late);
  EXPECT_EQ(silences.left_open(1, kNoAnswer, 40 * late).since_ns, 20 * late) << "of one that is lost it is known";
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
