// The stages of a replica in several processes, by the same edges: the bits are those of one process, whatever the order of events and
// however slow a process or a link is; whoever is lost, all that live end in time and say whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu.h"
#include "runtime/base/log.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

class Parts : public testing::Test {
 protected:
  Parts() { set_log_level(LogLevel::kError); }
  ~Parts() override { set_log_level(LogLevel::kInfo); }
  std::string folder(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }

  // The same job, each replica in one process, on threads.
  const Outcome& whole(const JobShape& shape) {
    auto& outcome = whole_[{shape.replicas, shape.tied, shape.zero >= 2}];
    if (outcome.losses.empty()) {
      JobShape one = shape;
      one.parts = 1, one.zero = shape.zero >= 2 ? 2 : 0, one.evaluate = true, one.save = false;
      outcome = run_job(small_config(corpus_, folder(absl::StrCat("whole-", whole_.size()))), one.overrides(corpus_), kernels::cpu::table());
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    }
    return outcome;
  }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
  std::map<std::tuple<int, bool, bool>, Outcome> whole_;  // by replicas, tied, split gradients; the rest changes no bit
};

TEST_F(Parts, TrainWithTheBitsOfOneProcess) {
  const std::uint64_t count = seeds(64, 16);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const JobShape shape = JobShape::of_parts(seed);
    Draws draws(seed, 9);
    const auto kind = static_cast<FaultKind>(draws.below(static_cast<int>(FaultKind::kShortCut) + 1));
    const Fault fault = Fault::draw(kind, draws, shape.world(), 3'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    const std::string output = folder(absl::StrCat("seed-", seed));
    const Trial trial = run_trial(seed, shape, corpus_, output, {.befall = [&](comm::SimNetwork& network) { fault.schedule(network); }});
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    ASSERT_TRUE(trial.outcome.status.ok()) << trial.outcome.status;
    ASSERT_EQ(trial.broken, "");
    ASSERT_EQ(trial.unfinished, "");
    ASSERT_THAT(trial.lost_frames, testing::IsEmpty());
    for (const auto& end : trial.ends) ASSERT_TRUE(end.status.ok() && end.left()) << end.status;
    const Outcome& expected = whole(shape);
    ASSERT_THAT(trial.outcome.steps, testing::ElementsAre(1, 2, 3));
    ASSERT_EQ(trial.outcome.losses, expected.losses);
    ASSERT_EQ(trial.outcome.norms, expected.norms);
    ASSERT_EQ(trial.outcome.sample_hashes, expected.sample_hashes);
    ASSERT_EQ(trial.outcome.validation, shape.evaluate ? expected.validation : decltype(expected.validation)());
    std::filesystem::remove_all(output);
  }
}

TEST_F(Parts, ALostProcessEndsAllInTimeWithItsName) {
  const FaultKind kinds[] = {FaultKind::kCrash, FaultKind::kCut, FaultKind::kPartition, FaultKind::kLongPause};
  const std::uint64_t count = seeds(48, 16);
  int failed = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const JobShape shape = JobShape::of_parts(seed);
    Draws draws(seed, 10);
    const std::int64_t takes_ns = shape.save ? 11'000'000 : 4'000'000;
    const Fault fault = Fault::draw(kinds[seed / 2 % 4], draws, shape.world(), takes_ns, comm::SimNetworkOptions().heartbeat_timeout_ns);
    const std::string output = folder(absl::StrCat("lost-", seed));
    std::int64_t by_ns = 0;
    const Trial trial = run_trial(seed, shape, corpus_, output, {.befall = [&](comm::SimNetwork& network) {
      fault.schedule(network);
      by_ns = fault.heard_by_ns(network) + 3'000'000;
    }});
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    ASSERT_EQ(trial.broken, "");
    ASSERT_THAT(trial.unfinished, testing::AllOf(testing::Not(testing::HasSubstr("has not ended")), testing::Not(testing::HasSubstr("open"))));
    bool any = false;
    for (std::size_t i = 0; i < trial.ends.size(); ++i) {
      const auto& end = trial.ends[i];
      if (fault.kind == FaultKind::kCrash && fault.victim.value == static_cast<std::int32_t>(i)) continue;
      ASSERT_TRUE(end.left()) << "rank " << i;
      ASSERT_LE(end.ended_ns, std::max(by_ns, takes_ns * 3)) << "rank " << i << ": " << end.status;
      if (end.status.ok()) continue;
      any = true;
      ASSERT_TRUE(absl::IsUnavailable(end.status)) << end.status;
      ASSERT_THAT(std::string(end.status.message()), testing::ContainsRegex("rank [0-9]+ (is down|has ended|ended)")) << "rank " << i;
    }
    failed += any ? 1 : 0;
    std::filesystem::remove_all(output);
  }
  EXPECT_GT(failed, static_cast<int>(count) / 2);
}

// What one layout saved, another goes on from: as many files as there were processes, read by however many there are.
TEST_F(Parts, AnotherLayoutResumesWithTheSameBits) {
  TrialOptions stop_early;
  const JobShape layouts[] = {{.pipeline = 4, .save = true, .replicas = 2, .parts = 2, .layers = 4},
                              {.pipeline = 4, .save = true, .replicas = 2, .zero = 1, .parts = 4, .layers = 4},
                              {.pipeline = 2, .save = true, .replicas = 2, .zero = 1, .layers = 4}};
  for (const bool tied : {false, true}) {
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        if (from == to) continue;
        JobShape before = layouts[from], after = layouts[to];
        before.tied = after.tied = tied;
        SCOPED_TRACE(absl::StrCat(before.describe(), " -> ", after.describe()));
        stop_early.after_each_event = [stopped = false](actors::TrainingJob& job) mutable {
          if (stopped || job.system().probes().find("ledger")->handled_count() < 12) return;
          job.request_stop("test");
          stopped = true;
        };
        const std::string output = folder(absl::StrCat("resume-", tied, from, to));
        // 4 layers in all three
        const Trial part = run_trial(7, before, corpus_, output, stop_early);
        ASSERT_TRUE(part.outcome.status.ok()) << part.outcome.status;
        ASSERT_LT(part.outcome.steps.size(), 3u);
        const Trial resumed = run_trial(8, after, corpus_, output);
        ASSERT_TRUE(resumed.outcome.status.ok()) << resumed.outcome.status;
        ASSERT_EQ(resumed.outcome.losses, whole(before).losses);
        ASSERT_EQ(resumed.outcome.norms, whole(before).norms);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::test
