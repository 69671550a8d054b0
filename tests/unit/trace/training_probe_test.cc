#include "runtime/trace/training_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <thread>

namespace troupe::trace {
namespace {

constexpr std::int64_t kTrainedSecond = 1'000'000'000;

std::map<std::string, double> lost_s(const TrainingRow& row) {
  std::map<std::string, double> seconds;
  for (const auto& loss : row.badput) {
    if (loss.spent_ns != 0) seconds[loss.type] = static_cast<double>(loss.spent_ns) / kTrainedSecond;
  }
  return seconds;
}

std::int64_t sum_ns(const TrainingRow& row) {
  std::int64_t sum = row.useful_ns;
  for (const auto& loss : row.badput) sum += loss.spent_ns;
  return sum;
}

TEST(TrainingProbe, UsefulTimeAndItsLossesAreTheWall) {
  using Lost = std::map<std::string, double>;
  VirtualClock clock;
  TrainingProbe probe(Ticks(&clock), {.begun_ns = 100 * kTrainedSecond, .steps = 9, .tokens_per_step = 80, .flops_per_step = 1e9, .peak_flops_per_s = 1e9});
  const auto at = [&](std::int64_t s) {
    clock.advance((100 + s) * kTrainedSecond - clock.now_ns());
    const TrainingRow row = probe.row();
    EXPECT_EQ(row.wall_ns, s * kTrainedSecond);
    EXPECT_EQ(sum_ns(row), row.wall_ns);
    return row;
  };
  const auto now = [](std::int64_t s) { return (100 + s) * kTrainedSecond; };
  EXPECT_EQ(lost_s(at(3)), (Lost{{"startup", 3}}));
  EXPECT_EQ(at(3).loss, std::nullopt);
  probe.opened(now(5));
  EXPECT_EQ(lost_s(at(6)), (Lost{{"startup", 5}, {"overdue", 1}}));  // no step has said yet how long one takes
  EXPECT_EQ(at(6).step_open_ns, kTrainedSecond);
  probe.closed({.loss = 2, .grad_norm = 0.5, .learning_rate = 1e-3, .tokens = 70, .data_wait_ns = 1 * kTrainedSecond}, now(15));
  EXPECT_EQ(lost_s(at(15)), (Lost{{"startup", 5}, {"data_wait", 1}}));
  EXPECT_EQ(at(15).useful_ns, 9 * kTrainedSecond);
  EXPECT_DOUBLE_EQ(at(15).goodput_ratio, 0.6);
  EXPECT_DOUBLE_EQ(at(15).tokens_per_s, 8);
  EXPECT_DOUBLE_EQ(at(15).mfu_ratio, 0.1);
  EXPECT_EQ(lost_s(at(17)), (Lost{{"startup", 5}, {"data_wait", 1}, {"between_steps", 2}}));
  probe.opened(now(17));
  EXPECT_EQ(lost_s(at(27)), (Lost{{"startup", 5}, {"data_wait", 1}, {"between_steps", 2}}));  // as long as the median one
  EXPECT_EQ(lost_s(at(29)), (Lost{{"startup", 5}, {"data_wait", 1}, {"between_steps", 2}, {"overdue", 2}}));
  // What is waited for at once counts once, and never more than the step.
  probe.closed({.loss = std::nan(""), .tokens = 70, .data_wait_ns = 6 * kTrainedSecond, .checkpoint_wait_ns = 3 * kTrainedSecond, .evaluation_wait_ns = 8 * kTrainedSecond, .skipped = true}, now(29));
  EXPECT_EQ(lost_s(at(29)), (Lost{{"startup", 5}, {"data_wait", 7}, {"checkpoint_wait", 3}, {"between_steps", 2}, {"evaluation_wait", 3}}));
  EXPECT_EQ(at(29).loss, std::nullopt);
  probe.opened(now(29));
  probe.closed({.loss = 1.5, .tokens = 70, .evaluation_wait_ns = 1 * kTrainedSecond, .skipped = true}, now(31));
  EXPECT_EQ(lost_s(at(31))["skipped"], 1);
  const TrainingRow row = at(31);
  EXPECT_EQ(row.step, 3);
  EXPECT_EQ(row.loss, 1.5);
  EXPECT_EQ(row.skipped_steps, 2);
  EXPECT_EQ(row.tokens, 210);
  EXPECT_EQ(row.effective_tokens, 70);
  EXPECT_EQ(row.median_step_ns, 10 * kTrainedSecond);
  EXPECT_EQ(row.steps_ns, 24 * kTrainedSecond);
}

TEST(TrainingProbe, GoesOnWithTheStepsAndTokensOfTheRunBefore) {
  VirtualClock clock;
  TrainingProbe probe(Ticks(&clock), {.first_step = 41, .steps = 60, .tokens = 1000});
  EXPECT_EQ(probe.row().step, 40);
  probe.opened(0);
  probe.closed({.loss = 2, .tokens = 10}, kTrainedSecond);
  const TrainingRow row = probe.row();
  EXPECT_EQ(row.step, 41);
  EXPECT_EQ(row.steps_here, 1);
  EXPECT_EQ(row.tokens, 1010);
  EXPECT_EQ(row.tokens_here, 10);
  EXPECT_EQ(row.restarts, 1);
}

TEST(TrainingProbe, CountsStepTimesByBound) {
  VirtualClock clock;
  TrainingProbe probe(Ticks(&clock), {});
  std::int64_t now_ns = 0;
  for (const std::int64_t took_ns : {1'000'000l, 1'000'001l, 50'000'000l, 3'000'000'000'000l}) {
    probe.opened(now_ns);
    probe.closed({}, now_ns += took_ns);
  }
  const HistogramRow times = probe.row().step_times;
  std::map<double, std::int64_t> up_to;
  for (std::size_t i = 0; i < times.bounds_s.size(); ++i) {
    if (times.counts[i] > 0) up_to[times.bounds_s[i]] = times.counts[i];
  }
  EXPECT_EQ(up_to, (std::map<double, std::int64_t>{{0.001, 1}, {0.002, 1}, {0.05, 1}}));
  EXPECT_EQ(times.counts.back(), 1);
  EXPECT_EQ(times.counts.size(), times.bounds_s.size() + 1);
}

TEST(Cell, IsReadAsItWasWritten) {
  using Many = std::array<std::uint64_t, 40>;
  Cell<Many> cell;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    Many value;
    for (std::uint64_t i = 1; i <= 200'000; ++i) {
      value.fill(i);
      cell.store(value);
      std::this_thread::yield();
    }
    done = true;
  });
  std::uint64_t last = 0, torn = 0, backwards = 0;
  while (!done) {
    const Many value = cell.load();
    for (const auto word : value) torn += word != value.front();
    backwards += value.front() < last;
    last = value.front();
  }
  writer.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(backwards, 0u);
  EXPECT_EQ(cell.load().back(), 200'000u);
}

}  // namespace
}  // namespace troupe::trace
