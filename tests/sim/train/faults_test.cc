// Planted faults: the job ends, says whose fault it was, and the invariants see what they are there for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

using testing::HasSubstr, testing::StartsWith;

class Faults : public testing::Test {
 protected:
  Faults() { set_log_level(LogLevel::kError); }
  ~Faults() override { set_log_level(LogLevel::kInfo); }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

std::int64_t handled(actors::TrainingJob& job, const std::string& actor, const std::string& type) {
  const auto probe = job.system().probes().find(actor);
  if (!probe) return -1;
  for (const auto& count : probe->row(job.system().probes().texts()).messages) {
    if (count.type == type) return count.handled;
  }
  return 0;
}

// Every token of the corpus, on the disk and so in the mapped pages, becomes one that the model does not know.
void damage(const std::string& corpus) {
  const std::string path = corpus + ".bin";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file << std::string(std::filesystem::file_size(path), '\xff');
}

TEST_F(Faults, AReadThatFailsEndsTheJobAndNamesTheSource) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    make_corpus(absl::StrCat(folder_.path(), "/", seed), 20);
    const std::string corpus = absl::StrCat(folder_.path(), "/", seed, "/corpus");
    const std::string output = absl::StrCat(folder_.path(), "/run-", seed);
    bool damaged = false;
    TrialOptions options;
    options.after_each_event = [&](actors::TrainingJob& job) {
      if (damaged || handled(job, "source", "BatchRead") < 4) return;  // the first step is read
      damage(corpus);
      damaged = true;
    };
    const JobShape shape{.pipeline = seed % 2 == 0 ? 1 : 4, .evaluate = false, .save = seed % 3 == 0};
    const Trial trial = run_trial(seed, shape, corpus, output, options);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    EXPECT_EQ(trial.broken, "");
    EXPECT_EQ(trial.outcome.status.code(), absl::StatusCode::kDataLoss);
    const std::string message(trial.outcome.status.message());
    EXPECT_THAT(message, HasSubstr("'source' failed"));
    EXPECT_THAT(message, HasSubstr(corpus + ".bin: at byte"));
    EXPECT_LT(message.find("'source' failed"), 20u) << message;   // the first that is named
    EXPECT_THAT(trial.unfinished, testing::Not(HasSubstr("has not ended"))) << "nobody hangs";
    EXPECT_LE(trial.outcome.steps.size(), 2u);
  }
}

TEST_F(Faults, AnErrorOfTheDeviceEndsTheJobWithItsCause) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    TrialOptions options;
    options.wrap = [&](std::unique_ptr<device::Stream> stream, Rank) -> std::unique_ptr<device::Stream> {
      if (stream->name() != "compute") return stream;
      return std::make_unique<FailsAt>(std::move(stream), 40 + static_cast<int>(seed) * 50);
    };
    const JobShape shape{.pipeline = 2, .evaluate = seed % 2 == 0, .save = false};
    const Trial trial = run_trial(seed, shape, corpus_, absl::StrCat(folder_.path(), "/run-", seed), options);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    EXPECT_EQ(trial.broken, "");
    EXPECT_EQ(trial.outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(trial.outcome.status.message()), HasSubstr("'device' failed"));
    EXPECT_THAT(std::string(trial.outcome.status.message()), HasSubstr("the device lost its memory"));
    EXPECT_THAT(trial.unfinished, testing::Not(HasSubstr("has not ended")));
  }
}

// The checks see what they are there for.
TEST(Watch, SeesACreditThatWasLostAndOneThatCameTwice) {
  const auto edge = [](std::int64_t free, std::int64_t taken, std::int64_t reclaimed) {
    auto probe = std::make_shared<trace::EdgeProbe>();
    probe->name = "stage-0.activation";
    probe->capacity = 3;
    probe->free = free;
    for (auto* counter : {&probe->taken, &probe->sent, &probe->delivered}) *counter = taken;
    for (auto* counter : {&probe->returned, &probe->reclaimed}) *counter = reclaimed;
    return probe;
  };
  EXPECT_EQ(broken_credits({edge(3, 0, 0), edge(1, 4, 2)}), "");
  EXPECT_THAT(broken_credits({edge(3, 0, 0), edge(0, 4, 2)}), StartsWith("edge stage-0.activation: capacity 3, free 0"));
  EXPECT_NE(broken_credits({edge(2, 4, 2)}), "");
  EXPECT_NE(broken_credits({edge(4, 2, 3)}), "");
}

}  // namespace
}  // namespace troupe::test
