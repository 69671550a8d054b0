#include "actors/train/pulled_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

using testing::ElementsAre;

// A first stage that computes one at a time; steps 1 and 2.
class PulledShareTest : public testing::Test {
 protected:
  // Asked, answered and read.
  void take(std::int32_t micro_batch, bool last = false) {
    ASSERT_TRUE(share_.question());
    share_.assigned({share_step_, micro_batch, last});
    if (micro_batch < 0) return;
    ASSERT_NE(share_.to_read(), nullptr);
    EXPECT_EQ(share_.to_read()->slot, micro_batch);
    share_.reading();
  }

  PulledShare share_{StepId(1), 2, 1};
  StepId share_step_{1};
};

TEST_F(PulledShareTest, AsksForOneBeforeTheStepAndForOneBeyondTheOneItComputes) {
  const auto first = share_.question();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step, StepId(1));
  EXPECT_EQ(first->next, 0);
  EXPECT_FALSE(first->open);
  EXPECT_FALSE(share_.question()) << "one question at a time";
  share_.assigned({StepId(1), 7, false});
  EXPECT_EQ(share_.to_read()->slot, 7);
  EXPECT_EQ(share_.to_read()->micro_batch, MicroBatchId(0));
  share_.reading();
  EXPECT_EQ(share_.to_read(), nullptr);
  EXPECT_FALSE(share_.question()) << "the step is not open";
  share_.opened(StepId(1));
  const auto second = share_.question();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->next, 1);
  EXPECT_TRUE(second->open);
  share_.assigned({StepId(1), 9, false});
  EXPECT_FALSE(share_.question()) << "one to be read, one computed";
  share_.reading();
  EXPECT_FALSE(share_.question());
}

TEST_F(PulledShareTest, SaysWhatItFinishedAndHowLongThatTook) {
  share_.opened(StepId(1));
  take(0);
  share_.handed_over(100);
  take(1);
  share_.handed_over(120);
  share_.computed(StepId(1), 400);
  const auto question = share_.question();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->finished, 1);
  EXPECT_EQ(question->pace_ns, 300);
  EXPECT_FALSE(share_.question()) << "nothing new";
  share_.computed(StepId(1), 600);  // and the question is still open
  const auto again = share_.question();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->next, 2);
  EXPECT_EQ(again->finished, 2);
  EXPECT_EQ(again->pace_ns, 200);
}

TEST_F(PulledShareTest, DoesNotCountTheTimeInWhichItHadNothing) {
  share_.opened(StepId(1));
  take(0);
  share_.handed_over(100);
  share_.computed(StepId(1), 200);
  take(1);
  share_.handed_over(5'000);
  share_.computed(StepId(1), 5'300);
  EXPECT_EQ(share_.question()->pace_ns, 300);
}

TEST_F(PulledShareTest, TellsItsShareWhenThatIsComplete) {
  take(3);
  share_.opened(StepId(1));
  take(1, /*last=*/true);
  EXPECT_TRUE(share_.complete());
  EXPECT_TRUE(share_.marked());
  EXPECT_FALSE(share_.question()) << "the end of this one first";
  EXPECT_THAT(share_.tell(), ElementsAre(3, 1));
  EXPECT_EQ(share_.question()->step, StepId(2));
}

TEST_F(PulledShareTest, MayHaveNoneOfAStep) {
  take(-1, /*last=*/true);
  EXPECT_FALSE(share_.complete()) << "the step is not open";
  share_.opened(StepId(1));
  EXPECT_TRUE(share_.complete());
  EXPECT_FALSE(share_.marked());
  EXPECT_THAT(share_.tell(), ElementsAre());
}

TEST_F(PulledShareTest, AsksForNothingAfterTheLastStep) {
  for (int step : {1, 2}) {
    share_step_ = StepId(step);
    share_.opened(share_step_);
    take(-1, /*last=*/true);
    (void)share_.tell();
  }
  EXPECT_FALSE(share_.question());
}

// A later stage's process: the same answers, and it may be behind.
TEST_F(PulledShareTest, HearsWhatTheProcessOfTheFirstStageAskedFor) {
  PulledShare other(StepId(1), 2, 1, /*asks=*/false);
  EXPECT_FALSE(other.question());
  other.assigned({StepId(1), 4, false});
  other.assigned({StepId(1), 5, false});
  other.assigned({StepId(1), -1, true});
  other.assigned({StepId(2), 0, false});  // the step is not even open here
  EXPECT_FALSE(other.complete());
  other.opened(StepId(1));
  for (const int slot : {4, 5}) {
    ASSERT_NE(other.to_read(), nullptr);
    EXPECT_EQ(other.to_read()->slot, slot);
    EXPECT_EQ(other.to_read()->step, StepId(1));
    other.reading();
  }
  EXPECT_EQ(other.to_read(), nullptr);
  ASSERT_TRUE(other.complete());
  EXPECT_FALSE(other.marked());
  EXPECT_THAT(other.tell(), ElementsAre(4, 5));
  ASSERT_NE(other.to_read(), nullptr);
  EXPECT_EQ(other.to_read()->step, StepId(2));
  EXPECT_EQ(other.to_read()->micro_batch, MicroBatchId(0));
}

TEST_F(PulledShareTest, TakesAnAnswerToNoQuestionForABug) {
  EXPECT_DEATH(share_.assigned({StepId(1), 0, false}), "a micro-batch of step 1 was assigned");
  ASSERT_TRUE(share_.question());
  EXPECT_DEATH(share_.assigned({StepId(2), 0, false}), "a micro-batch of step 2 was assigned, 1 is asked for");
}

}  // namespace
}  // namespace troupe::actors
