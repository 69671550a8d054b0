#include "runtime/trace/stream_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/base/clock.h"

namespace troupe::trace {
namespace {

using testing::ElementsAre;

class StreamProbeTest : public testing::Test {
 protected:
  void work(std::int64_t ns) {
    probe_.begin_work();
    clock_.advance(ns);
    probe_.end_work();
  }
  void operation(const Operation& what, std::int64_t busy_ns) {
    probe_.queued();
    probe_.begin(what);
    work(busy_ns);
    probe_.end();
  }
  std::vector<std::string> names(std::uint64_t since = 0) const {
    std::vector<std::string> names;
    for (const auto& row : probe_.operations_since(since).rows) names.push_back(row.name);
    return names;
  }

  const Clock* started() {
    clock_.advance(1);  // 0 is no time that a stream has
    return &clock_;
  }
  VirtualClock clock_;
  StreamProbe probe_{"compute", Ticks(started())};
};

TEST_F(StreamProbeTest, TellsWhatRanWhen) {
  clock_.advance(999);
  operation({.what = "forward", .block = 3, .step = 7, .micro_batch = 2}, 50);
  operation({.what = "update", .step = 7}, 10);
  const auto seen = probe_.operations_since(0);
  EXPECT_THAT(seen.rows, ElementsAre(OperationRow{.name = "forward block 3", .step = 7, .micro_batch = 2, .begin_ns = 1000, .end_ns = 1050},
                                     OperationRow{.name = "update", .step = 7, .begin_ns = 1050, .end_ns = 1060}));
  EXPECT_EQ(seen.first, 0u);
  EXPECT_EQ(seen.lost, 0);
  EXPECT_THAT(names(1), ElementsAre("update"));
  EXPECT_EQ(probe_.operations_since(0, 1050).first, 1u) << "what ended after 1050 only";
}

TEST_F(StreamProbeTest, TellsWhatRunsNowAndSinceWhen) {
  EXPECT_EQ(probe_.row().running, "");
  probe_.queued();
  probe_.queued();
  probe_.begin({.what = "write checkpoint", .step = 4});
  probe_.begin_work();
  clock_.advance(2'000'000'000);
  const StreamRow row = probe_.row();
  EXPECT_EQ(row.running, "write checkpoint");
  EXPECT_EQ(row.running_ns, 2'000'000'000);
  EXPECT_EQ(row.queued, 1);
  EXPECT_EQ(row.done, 0);
  EXPECT_EQ(row.busy_ns, 2'000'000'000) << "the work that is not done yet counts, too";
  EXPECT_DOUBLE_EQ(row.busy_ratio, 1.0);
}

TEST_F(StreamProbeTest, CountsWaitingInAnOperationAsNoWork) {
  probe_.begin({.what = "forward", .step = 1});
  probe_.begin_wait();
  clock_.advance(300);
  probe_.end_wait();
  work(100);
  probe_.end();
  const auto seen = probe_.operations_since(0);
  ASSERT_EQ(seen.rows.size(), 1u);
  EXPECT_EQ(seen.rows[0].end_ns - seen.rows[0].begin_ns, 400);
  EXPECT_EQ(seen.rows[0].waited_ns, 300);
  EXPECT_EQ(probe_.row().busy_ns, 100);
  EXPECT_EQ(probe_.waited_ns(), 300);
}

TEST_F(StreamProbeTest, CountsTheOperationsItLost) {
  const auto count = static_cast<std::int64_t>(StreamProbe::kOperations) + 5;
  for (std::int64_t i = 0; i < count; ++i) operation({.what = "forward", .step = i}, 1);
  const auto seen = probe_.operations_since(0);
  EXPECT_EQ(seen.lost, 5);
  EXPECT_EQ(seen.first, 5u);
  ASSERT_EQ(seen.rows.size(), StreamProbe::kOperations);
  EXPECT_EQ(seen.rows.front().step, 5);
  EXPECT_EQ(seen.rows.back().step, count - 1);
  EXPECT_EQ(probe_.operations_since(10).lost, 0);
  EXPECT_EQ(probe_.row().done, count);
}

TEST_F(StreamProbeTest, SaysTheBusyShareSinceALookASecondAgo) {
  work(StreamProbe::kLookNs);  // busy
  EXPECT_DOUBLE_EQ(probe_.row().busy_ratio, 1.0);
  clock_.advance(StreamProbe::kLookNs);  // idle
  EXPECT_DOUBLE_EQ(probe_.row().busy_ratio, 0.0);
  work(StreamProbe::kLookNs / 2);
  EXPECT_NEAR(probe_.row().busy_ratio, 1.0 / 3, 1e-9) << "a look right after another does not shorten the time that it is said of";
}

TEST_F(StreamProbeTest, SaysTheMedianOfTheStepsThatAreDone) {
  EXPECT_EQ(probe_.row().step_busy_ns, 0);
  for (std::int64_t step = 1; step <= 40; ++step) {
    operation({.what = "forward", .step = step}, step % 2 == 0 ? 60 : 40);
    operation({.what = "update", .step = step}, 30);
    operation({.what = "elsewhere"}, 1000);  // of no step
    if (step == 1) {
      EXPECT_EQ(probe_.row().step_busy_ns, 0) << "the open step is not told";
    }
  }
  const auto busy = probe_.row().step_busy_ns;
  EXPECT_TRUE(busy == 70 || busy == 90) << busy;
}

// Values that belong together carry the same number.
TEST(StreamProbe, NeverShowsATornOperation) {
  StreamProbe probe("compute");
  std::atomic<bool> stop{false};
  std::thread stream([&] {
    for (std::int32_t i = 0; !stop; ++i) {
      probe.begin({.what = "forward", .block = i, .step = i, .micro_batch = i});
      probe.begin_work();
      probe.end_work();
      probe.end();
    }
  });
  const auto agrees = [](const OperationRow& row) {
    return row.name == "forward block " + std::to_string(row.step) && row.micro_batch == row.step && row.begin_ns <= row.end_ns;
  };
  std::uint64_t next = 0, seen = 0;
  std::int64_t last = -1;
  for (int look = 0; look < 300 || seen == 0; ++look) {
    const auto operations = probe.operations_since(next);
    for (const auto& row : operations.rows) {
      ASSERT_TRUE(agrees(row)) << row.name << " of step " << row.step << ", micro-batch " << row.micro_batch;
      ASSERT_GT(row.step, last);
      last = row.step;
    }
    if (!operations.rows.empty()) {
      ASSERT_EQ(operations.rows.front().step, static_cast<std::int64_t>(operations.first));
    }
    ASSERT_EQ(operations.first, next + static_cast<std::uint64_t>(operations.lost));
    next = operations.first + operations.rows.size();
    seen += operations.rows.size();
    OperationRow running;
    if (probe.running(running)) {
      ASSERT_TRUE(agrees(running)) << running.name << " of step " << running.step;
    }
  }
  stop = true;
  stream.join();
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace troupe::trace
