#include "models/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "models/data/batch_layout.h"

namespace troupe::data {
namespace {

std::vector<std::int64_t> windows(const Sampler& sampler, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> found;
  for (std::int64_t id = begin; id < end; ++id) found.push_back(sampler.window(SampleId(id)));
  return found;
}

// CASES T01, T08.
TEST(Sampler, EveryEpochIsCompleteAndReshuffled) {
  constexpr std::int64_t kSize = 100;
  const Sampler sampler(SampleOrder::kShuffled, kSize, 5);
  std::vector<std::int64_t> everything(kSize);
  std::iota(everything.begin(), everything.end(), 0);
  std::vector<std::vector<std::int64_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    epochs.push_back(windows(sampler, epoch * kSize, (epoch + 1) * kSize));
    EXPECT_EQ(sampler.epoch(SampleId(epoch * kSize)), epoch);
    EXPECT_EQ(sampler.epoch(SampleId(epoch * kSize + kSize - 1)), epoch);
    auto sorted = epochs.back();
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, everything) << "epoch " << epoch;
    EXPECT_NE(epochs.back(), everything) << "epoch " << epoch;
    for (std::size_t earlier = 0; earlier + 1 < epochs.size(); ++earlier)
      EXPECT_NE(epochs[earlier], epochs.back());
  }
}

// CASES T01, T02: a sampler made anew at any cursor goes on as the uninterrupted one; the offset is not used
// again later.
TEST(SamplerResume, GoesOnWhereTheRunStopped) {
  const Sampler uninterrupted(SampleOrder::kShuffled, 37, 11);
  const auto whole = windows(uninterrupted, 0, 37 * 4);
  for (const std::int64_t cursor : {0, 1, 20, 36, 37, 38, 73, 74, 100}) {
    const Sampler resumed(SampleOrder::kShuffled, 37, 11);
    EXPECT_EQ(windows(resumed, cursor, 37 * 4),
              (std::vector<std::int64_t>(whole.begin() + cursor, whole.end())))
        << "cursor " << cursor;
  }
}

// CASES T03, T05: with gradient accumulation the cursor counts samples, and every replica continues from it
// alone.
TEST(SamplerResume, CountsSamplesWithGradientAccumulation) {
  const auto layout =
      *BatchLayout::create(/*global_batch=*/24, /*micro_batch=*/2, /*dp=*/3);  // 4 micro-batches a step
  const auto run = [&](std::int64_t first_step, std::int64_t last_step, std::int64_t cursor,
                       std::int64_t replica) {
    const Sampler sampler(SampleOrder::kShuffled, 50, 3);
    std::vector<std::int64_t> seen;
    for (auto step = first_step; step <= last_step; ++step, cursor += layout.global_batch()) {
      for (int micro = 0; micro < layout.micro_batches(); ++micro) {
        for (std::int64_t row = 0; row < layout.micro_batch(); ++row) {
          seen.push_back(sampler.window(layout.sample(cursor, MicroBatchId(micro), replica, row)));
        }
      }
    }
    return seen;
  };
  for (std::int64_t replica = 0; replica < 3; ++replica) {
    auto whole = run(1, 9, 0, replica);
    auto parts = run(1, 4, 0, replica);
    const auto rest = run(5, 9, 4 * layout.global_batch(), replica);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << "replica " << replica;
  }
}

TEST(Sampler, RepeatsTheCorpusInItsOrderWhereNothingIsShuffled) {
  const Sampler sampler(SampleOrder::kRepeated, 3, 7);
  std::vector<std::int64_t> windows;
  for (int id = 0; id < 7; ++id) windows.push_back(sampler.window(SampleId(id)));
  EXPECT_THAT(windows, testing::ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(Sampler, KeepsTheCorpusOrderWhenSequential) {
  const Sampler sampler(SampleOrder::kSequential, 4, 0);
  EXPECT_EQ(windows(sampler, 0, 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(SamplerDeathTest, RefusesIdsThatDoNotExist) {
  EXPECT_DEATH(Sampler(SampleOrder::kSequential, 4, 0).window(SampleId(4)), "sample 4 of 4 for validation");
  EXPECT_DEATH(Sampler(SampleOrder::kShuffled, 4, 0).window(SampleId(-1)), "sample -1");
}

TEST(SampleHash, TellsOrderAndContentApart) {
  const auto hash = [](const std::vector<std::int64_t>& ids) {
    SampleHash running;
    for (const auto id : ids) running.add(SampleId(id));
    return running.value();
  };
  EXPECT_EQ(hash({1, 2, 3}), hash({1, 2, 3}));
  EXPECT_NE(hash({1, 2, 3}), hash({1, 3, 2}));
  EXPECT_NE(hash({1, 2, 3}), hash({1, 2}));
  EXPECT_NE(hash({0}), hash({}));
  EXPECT_NE(hash({0, 0}), hash({0}));
}

TEST(SampleHash, GoesOnFromASavedValue) {
  SampleHash whole;
  for (int id = 0; id < 10; ++id) whole.add(SampleId(id));
  SampleHash first;
  for (int id = 0; id < 6; ++id) first.add(SampleId(id));
  SampleHash second(first.value());
  for (int id = 6; id < 10; ++id) second.add(SampleId(id));
  EXPECT_EQ(second.value(), whole.value());
}

}  // namespace
}  // namespace troupe::data
