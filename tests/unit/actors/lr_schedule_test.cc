#include "actors/train/lr_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::actors {
namespace {

// Warmup over 4 of 10 steps, down to a tenth of a peak of 2; steps 1, 2, ... Values worked out on paper.
void expect_rates(plan::Decay decay, const std::vector<double>& expected) {
  plan::LrSchedulerSection schedule{.warmup_steps = 4, .decay = decay, .total_steps = 10, .min_lr_factor = 0.1};
  if (decay == plan::Decay::kWsd) schedule.decay_ratio = 0.3;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(learning_rate(schedule, 2.0, StepId(static_cast<std::int64_t>(i) + 1)), 2 * expected[i], 1e-12) << "step " << i + 1;
  }
}

TEST(LearningRate, RisesLinearlyThenFallsAsACosine) {
  // cos(30 deg) = 0.8660254, cos(60 deg) = 0.5; (1 + cos) / 2 between 0.1 and 1.
  expect_rates(plan::Decay::kCosine, {0.25, 0.5, 0.75, 1, 1, 0.1 + 0.9 * (1 + 0.86602540378443865) / 2, 0.1 + 0.9 * 0.75, 0.55,
                                      0.1 + 0.9 * 0.25, 0.1 + 0.9 * (1 - 0.86602540378443865) / 2, 0.1, 0.1});
}

TEST(LearningRate, FallsLinearly) { expect_rates(plan::Decay::kLinear, {0.25, 0.5, 0.75, 1, 1, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1, 0.1}); }

TEST(LearningRate, StaysAndThenFallsOverTheLastPart) { expect_rates(plan::Decay::kWsd, {0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 0.7, 0.4, 0.1, 0.1}); }

TEST(LearningRate, Stays) { expect_rates(plan::Decay::kConstant, {0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1, 1, 1}); }

TEST(LearningRate, IsThePeakAtOnceWithoutWarmup) {
  EXPECT_EQ(learning_rate({.warmup_steps = 0, .decay = plan::Decay::kCosine, .total_steps = 10}, 0.5, StepId(1)), 0.5);
  EXPECT_EQ(learning_rate({.warmup_steps = 1, .decay = plan::Decay::kCosine, .total_steps = 10}, 0.5, StepId(1)), 0.5);
}

}  // namespace
}  // namespace troupe::actors
