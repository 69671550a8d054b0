#include "tools/troupe/dashboard_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_job.h"

namespace troupe::test {
namespace {

using nlohmann::json;

class DashboardHistory : public testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/metrics.jsonl"; }
  void append(const std::string& text) const { std::ofstream(path(), std::ios::app | std::ios::binary) << text; }
  static std::string line(int step, double loss) { return json{{"step", step}, {"loss", loss}, {"tokens_per_s", 10.0}, {"mfu", 0.5}, {"step_s", 0.1}}.dump() + "\n"; }
  json steps() const { return json::parse(history_.text("/out"))["steps"]; }
  json memory() const { return json::parse(history_.text("/out"))["memory"]; }
  static json frame(int step, const json& loss) {
    return json{{"at_unix_s", 100.0 + step}, {"ranks", {json{{"rank", 0}, {"pid", 7}, {"memory_bytes", 70}}, json{{"rank", 2}, {"pid", 7}, {"memory_bytes", 70}}, json{{"rank", 1}, {"pid", 8}, {"memory_bytes", 30}, {"memory_peak_bytes", 40}, {"training", {{"step", step}, {"loss", loss}}}}}}};
  }

  tool::DashboardHistory history_;

 private:
  TemporaryFolder folder_;
};

TEST_F(DashboardHistory, ReadsWhatWasAppendedSince) {
  append(line(1, 3.0) + line(2, 2.5).substr(0, 20));  // torn while it is written
  history_.read_metrics(path());
  ASSERT_EQ(steps().size(), 1u);
  EXPECT_EQ(steps()[0], (json{{"step", 1}, {"loss", 3.0}, {"tokens_per_s", 10.0}, {"mfu_ratio", 0.5}, {"step_s", 0.1}}));
  append(line(2, 2.5).substr(20) + "nonsense\n" + line(3, 2.0));
  history_.read_metrics(path());
  ASSERT_EQ(steps().size(), 3u);
  EXPECT_EQ(steps()[1]["loss"], 2.5);
  EXPECT_EQ(history_.last_step(), 3);
}

TEST_F(DashboardHistory, BeginsAgainWithAnotherFile) {
  append(line(1, 3.0) + line(2, 2.5));
  history_.read_metrics(path());
  std::ofstream(path(), std::ios::trunc) << line(1, 7.0);
  history_.read_metrics(path());
  ASSERT_EQ(steps().size(), 1u);
  EXPECT_EQ(steps()[0]["loss"], 7.0);
  history_.read_metrics(path() + ".none");  // what is known stays
  EXPECT_EQ(steps().size(), 1u);
}

TEST_F(DashboardHistory, KeepsItsPointsWhenTheRunGoesOn) {
  history_.follow("/out");
  append(line(1, 3.0) + line(2, 2.5) + line(3, 2.4));
  history_.read_metrics(path());
  history_.take(frame(3, 2.4));
  history_.follow("");      // a frame that does not say whose it is
  history_.follow("/out");  // another job of the same folder, whose file cannot be read for now
  std::filesystem::rename(path(), path() + ".away");
  history_.read_metrics(path());
  EXPECT_EQ(steps().size(), 3u);
  history_.take(frame(3, 2.6));
  history_.take(frame(4, 2.2));  // nobody else says so now
  ASSERT_EQ(steps().size(), 4u);
  std::filesystem::rename(path() + ".away", path());
  append(line(3, 2.6) + line(4, 2.3));
  history_.read_metrics(path());
  ASSERT_EQ(steps().size(), 4u);
  EXPECT_EQ(steps()[1]["loss"], 2.5);
  EXPECT_EQ(steps()[3]["loss"], 2.3);
  EXPECT_EQ(memory().size(), 3u);
}

// Without it the sum would look like memory that was given back.
TEST_F(DashboardHistory, TakesTheMemoryOfASilentRankAsItWasLast) {
  json with_a_third = frame(1, 3.0);
  with_a_third["ranks"].push_back({{"rank", 3}, {"answered", false}});
  history_.take(with_a_third);
  EXPECT_TRUE(memory().empty());  // of one nothing is known yet
  with_a_third["ranks"].back() = {{"rank", 3}, {"answered", true}, {"pid", 9}, {"memory_bytes", 5}};
  history_.take(with_a_third);
  with_a_third["ranks"].back() = {{"rank", 3}, {"answered", false}};
  history_.take(with_a_third);
  ASSERT_EQ(memory().size(), 2u);
  EXPECT_EQ(memory()[0]["bytes"], 105);
  EXPECT_EQ(memory()[1]["bytes"], 105);
}

TEST_F(DashboardHistory, ForgetsThePointsOfAnotherRun) {
  history_.follow("/out");
  append(line(1, 3.0) + line(2, 2.5));
  history_.read_metrics(path());
  history_.take(frame(2, 2.5));
  history_.follow("/other");
  history_.read_metrics(path() + ".none");
  EXPECT_TRUE(steps().empty()) << steps();
  EXPECT_EQ(history_.last_step(), 0);
  EXPECT_TRUE(memory().empty());
  history_.take(frame(7, 1.5));  // its frames count, as it has no file
  ASSERT_EQ(steps().size(), 1u);
  EXPECT_EQ(steps()[0]["step"], 7);
}

TEST_F(DashboardHistory, ARepeatedStepCountsOnce) {
  append(line(1, 3.0) + line(2, 2.5) + line(3, 2.4) + line(2, 2.6));  // resumed from the checkpoint after step 1
  history_.read_metrics(path());
  ASSERT_EQ(steps().size(), 2u);
  EXPECT_EQ(steps()[1]["loss"], 2.6);
}

TEST_F(DashboardHistory, ThinsAndKeepsSpikes) {
  constexpr int kSteps = 50000, kSpike = 31007, kDip = 12345;
  std::string text;
  for (int step = 1; step <= kSteps; ++step) text += line(step, step == kSpike ? 99.0 : step == kDip ? 0.5 : 2.0);
  append(text);
  history_.read_metrics(path());
  const json all = steps();
  EXPECT_LE(all.size(), tool::DashboardHistory::kPointsMost);
  EXPECT_GT(all.size(), tool::DashboardHistory::kPointsMost / 4);
  bool has_spike = false, has_dip = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    has_spike |= all[i]["step"] == kSpike;
    has_dip |= all[i]["step"] == kDip;
    EXPECT_TRUE(i == 0 || all[i - 1]["step"] < all[i]["step"]) << i;
  }
  EXPECT_TRUE(has_spike);
  EXPECT_TRUE(has_dip);
  EXPECT_EQ(all.back()["step"], kSteps);
}

TEST_F(DashboardHistory, TakesFramesWhereThereIsNoFile) {
  history_.take(frame(1, 3.0));
  history_.take(frame(1, 3.0));  // nothing new
  history_.take(frame(2, nullptr));
  history_.take(json{{"ranks", "nonsense"}});
  EXPECT_EQ(steps(), (json{{{"step", 1}, {"loss", 3.0}}, {{"step", 2}}}));
  ASSERT_EQ(memory().size(), 3u);
  EXPECT_EQ(memory()[2], (json{{"at_unix_s", 102.0}, {"bytes", 100}, {"peak_bytes", 40}}));
}

}  // namespace
}  // namespace troupe::test
