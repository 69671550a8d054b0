// One process of a job is lost, in whatever way: all others end in time and say whom they lost; what was saved goes on with the same bits.
// One that is slow is not lost: the job takes longer and has the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/base/first_cause.h"
#include "runtime/base/log.h"
#include "tests/sim/fault.h"
#include "tests/sim/seeds.h"
#include "tests/sim/train/trial.h"

namespace troupe::test {
namespace {

// From what a process hears to its end, and on to the last one's, each hearing it from the one before.
constexpr std::int64_t kBoundNs = 3'000'000;

class ReplicaFaults : public testing::Test {
 protected:
  ReplicaFaults() { set_log_level(LogLevel::kError); }
  ~ReplicaFaults() override { set_log_level(LogLevel::kInfo); }

  const bool in_memory_ = keep_files_in_memory();
  TemporaryFolder folder_;
  const std::string corpus_ = make_corpus(folder_.path(), 20);
};

// Whom a process blames for its end.
std::optional<Rank> named(const Status& status) {
  const auto first = first_cause(status);
  if (!first || status.message().find(absl::StrCat("rank ", first->rank.value, " is down")) == std::string::npos) return std::nullopt;
  return first->rank;
}

// A process blames whom the fault took, or one that had come to its end and left; never one that ended because of the fault. Empty if so.
std::string unexplained(const Fault& fault, const std::vector<ProcessEnd>& ends, Rank rank) {
  const auto& end = ends[static_cast<std::size_t>(rank.value)];
  const auto lost = named(end.status);
  if (!lost) return absl::StrCat("rank ", rank.value, " names nobody: ", std::string(end.status.message()));
  if (fault.explains(rank, *lost)) return {};
  const auto& before = ends[static_cast<std::size_t>(lost->value)];
  if (before.status.ok() && before.left() && before.left_ns <= end.left_ns) return {};
  return absl::StrCat("rank ", rank.value, " names rank ", lost->value, ", with which it did not begin: ", std::string(end.status.message()));
}

// Frames that were lost on a link which the fault left alone. Empty if none.
std::string lost_on_a_live_link(const Trial& trial, const Fault& fault) {
  for (const auto& [link, frames] : trial.lost_frames) {
    if (!fault.divides(Rank(link.first), Rank(link.second))) return absl::StrCat(frames, " from rank ", link.first, " to rank ", link.second);
  }
  return {};
}

// From the start on its device takes four times as long as others', and from then on its packets kSlowTimes times.
TrialOptions with_slow_peer(const Fault& slow) {
  return {.wrap = [rank = slow.victim](std::unique_ptr<device::Stream> stream, Rank of) -> std::unique_ptr<device::Stream> {
    if (of != rank || stream->name() != "compute") return stream;
    return std::make_unique<Slowed>(std::move(stream), 4);
  }, .befall = [&slow](comm::SimNetwork& network) { slow.schedule(network); }};
}

TEST_F(ReplicaFaults, ALostProcessEndsAllInTimeWithItsName) {
  const std::uint64_t count = seeds(500, 40);
  struct Kind {
    FaultKind kind;
    int slow_in_ten;  // runs in which another rank is slow as well
  };
  // Five, which goes through all shapes of a job with each, since their number is a power of two.
  const Kind kinds[] = {{FaultKind::kCrash, 0}, {FaultKind::kCrash, 10}, {FaultKind::kCut, 5}, {FaultKind::kPartition, 5}, {FaultKind::kLongPause, 5}};
  std::map<std::tuple<int, bool, bool, bool>, std::vector<double>> whole;  // losses by replicas, tied, split gradients, on two machines
  int failed = 0, through_others = 0, resumed = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    JobShape shape = JobShape::of_replicas(seed);
    Draws draws(seed, 6);
    if (shape.replicas == 4 && draws.one_in(2)) shape.node_of = {0, 0, 1, 1};  // a rank takes weights from one that is not their owner
    const std::int64_t takes_ns = shape.save ? 11'000'000 : shape.replicas == 4 ? 4'000'000 : 2'500'000;
    const std::int64_t timeout_ns = comm::SimNetworkOptions().heartbeat_timeout_ns;
    const auto [kind, slow_in_ten] = kinds[seed % std::size(kinds)];
    const Fault fault = Fault::draw(kind, draws, shape.replicas, takes_ns, timeout_ns);
    Fault slow = Fault::draw(FaultKind::kSlowPeer, draws, shape.replicas, takes_ns, timeout_ns);
    slow.victim = fault.other;
    const bool is_slow = draws.below(10) < slow_in_ten;
    TrialOptions options;
    if (is_slow) options = with_slow_peer(slow);
    std::int64_t by_ns = 0;
    options.befall = [&, slow_down = std::move(options.befall)](comm::SimNetwork& network) {
      fault.schedule(network);
      if (slow_down) slow_down(network);
      by_ns = fault.heard_by_ns(network) + kBoundNs * (is_slow ? kSlowTimes : 1);
    };
    const std::string output = absl::StrCat(folder_.path(), "/seed-", seed);
    const Trial trial = run_trial(seed, shape, corpus_, output, options);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe(), is_slow ? ", " + slow.describe() : ""));
    ASSERT_EQ(trial.broken, "");
    ASSERT_THAT(trial.unfinished, testing::AllOf(testing::Not(testing::HasSubstr("has not ended")), testing::Not(testing::HasSubstr("open"))));
    ASSERT_EQ(lost_on_a_live_link(trial, fault), "");
    bool any_failed = false;
    for (std::size_t i = 0; i < trial.ends.size(); ++i) {
      const Rank rank(static_cast<std::int32_t>(i));
      const auto& end = trial.ends[i];
      if (fault.kind == FaultKind::kCrash && rank == fault.victim) continue;
      ASSERT_TRUE(end.left()) << "rank " << i;
      ASSERT_LE(end.ended_ns, std::max(by_ns, takes_ns * 2)) << "rank " << i << ": " << end.status;
      if (end.status.ok()) {  // the fault came after the job
        ASSERT_THAT(trial.outcome.steps, testing::ElementsAre(1, 2, 3));
        continue;
      }
      any_failed = true;
      ASSERT_EQ(unexplained(fault, trial.ends, rank), "");
      through_others += fault.divides(rank, *named(end.status)) ? 0 : 1;
    }
    ASSERT_TRUE(std::is_sorted(trial.outcome.steps.begin(), trial.outcome.steps.end(), std::less_equal<>())) << "a step closed twice";
    failed += any_failed ? 1 : 0;
    if (any_failed && shape.save) {
      const Trial on = run_trial(seed + 1'000'000, shape, corpus_, output);
      ASSERT_TRUE(on.outcome.status.ok()) << on.outcome.status;
      ASSERT_THAT(on.outcome.steps, testing::ElementsAre(1, 2, 3));
      auto& losses = whole[{shape.replicas, shape.tied, shape.zero >= 2, !shape.node_of.empty()}];
      if (losses.empty()) losses = run_trial(seed, shape, corpus_, output + "-whole").outcome.losses;
      ASSERT_EQ(on.outcome.losses, losses);
      ++resumed;
    }
    std::filesystem::remove_all(output);
  }
  printf("%d seeds: in %d somebody failed, %d processes heard of it through others, %d runs resumed\n", static_cast<int>(count), failed,
         through_others, resumed);
  EXPECT_GT(failed, static_cast<int>(count) / 2);
}

TEST_F(ReplicaFaults, ASlowPeerIsNotTakenForLost) {
  for (std::uint64_t seed = 0; seed < seeds(100, 12); ++seed) {
    const JobShape shape = JobShape::of_replicas(seed);
    Draws draws(seed, 11);
    const Fault slow = Fault::draw(FaultKind::kSlowPeer, draws, shape.replicas, 1'000'000, comm::SimNetworkOptions().heartbeat_timeout_ns);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", slow.describe()));
    const std::string output = absl::StrCat(folder_.path(), "/slow-", seed);
    const Trial still = run_trial(seed, shape, corpus_, output + "-still");
    ASSERT_TRUE(still.outcome.status.ok()) << still.outcome.status;
    const Trial trial = run_trial(seed, shape, corpus_, output, with_slow_peer(slow));
    ASSERT_EQ(trial.broken, "");
    ASSERT_EQ(trial.unfinished, "");
    ASSERT_THAT(trial.lost_frames, testing::IsEmpty());
    for (const auto& end : trial.ends) ASSERT_TRUE(end.status.ok() && end.left()) << end.status;
    ASSERT_GT(trial.ended_ns, 2 * still.ended_ns) << "it was not slow";
    ASSERT_THAT(trial.outcome.steps, testing::ElementsAre(1, 2, 3));
    ASSERT_EQ(trial.outcome.losses, still.outcome.losses);
    ASSERT_EQ(trial.outcome.norms, still.outcome.norms);
    ASSERT_EQ(trial.outcome.validation, still.outcome.validation);
    std::filesystem::remove_all(output);
    std::filesystem::remove_all(output + "-still");
  }
}

// CASES T27, T28: whoever evaluates, has done its part, or has none (one batch over four) is told, and says whom it lost.
TEST_F(ReplicaFaults, AProcessLostDuringAnEvaluationEndsAllInTimeWithItsName) {
  for (std::uint64_t seed = 0; seed < seeds(100, 16); ++seed) {
    JobShape shape = JobShape::of_replicas(seed);
    shape.evaluate = true;
    shape.save = false;
    shape.validation_steps = seed % 3 == 0 ? 1 : 9;
    Draws draws(seed, 7);
    Fault fault{.kind = FaultKind::kCrash, .victim = draws.rank(shape.replicas)};
    comm::SimNetwork* network = nullptr;
    // Rank 0 has the first batch, so it evaluates from the request to its first batch at least.
    const auto begun = static_cast<std::int64_t>(1 + draws.below(shape.validation_steps > 1 ? 2 : 1));
    std::int64_t by_ns = -1;
    TrialOptions options;
    options.befall = [&](comm::SimNetwork& net) { network = &net; };
    options.after_each_event = [&](actors::TrainingJob& job) {
      if (by_ns >= 0 || job.system().probes().find("evaluator")->handled_count() < begun + 1) return;  // the first is its start
      network->crash(fault.victim);
      fault.at_ns = network->now_ns();
      by_ns = fault.heard_by_ns(*network) + kBoundNs;
    };
    const Trial trial = run_trial(seed, shape, corpus_, absl::StrCat(folder_.path(), "/evaluation-", seed), options);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), "), ", fault.describe()));
    ASSERT_GE(by_ns, 0);
    ASSERT_EQ(trial.broken, "");
    ASSERT_THAT(trial.unfinished, testing::AllOf(testing::Not(testing::HasSubstr("has not ended")), testing::Not(testing::HasSubstr("open"))));
    ASSERT_LT(trial.outcome.steps.size(), 3u);
    for (std::size_t i = 0; i < trial.ends.size(); ++i) {
      const Rank rank(static_cast<std::int32_t>(i));
      if (rank == fault.victim) continue;
      ASSERT_TRUE(trial.ends[i].left()) << "rank " << i;
      ASSERT_LE(trial.ends[i].ended_ns, by_ns) << "rank " << i << ": " << trial.ends[i].status;
      ASSERT_EQ(unexplained(fault, trial.ends, rank), "");
    }
  }
}

TEST_F(ReplicaFaults, AnErrorOfOneDeviceEndsAllProcesses) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const JobShape shape = JobShape::of_replicas(seed);
    const Rank broken(static_cast<std::int32_t>(seed / 2) % shape.replicas);
    TrialOptions options;
    options.wrap = [&](std::unique_ptr<device::Stream> stream, Rank rank) -> std::unique_ptr<device::Stream> {
      if (rank != broken || stream->name() != "compute") return stream;
      return std::make_unique<FailsAt>(std::move(stream), 20 + static_cast<int>(seed) * 10);
    };
    const Trial trial = run_trial(seed, shape, corpus_, absl::StrCat(folder_.path(), "/device-", seed), options);
    SCOPED_TRACE(absl::StrCat("seed ", seed, " (", shape.describe(), ")"));
    EXPECT_EQ(trial.broken, "");
    EXPECT_THAT(trial.unfinished, testing::Not(testing::HasSubstr("has not ended")));
    EXPECT_LT(trial.ended_ns, 20'000'000) << "heard by silence only";
    for (std::size_t i = 0; i < trial.ends.size(); ++i) {
      const Status& status = trial.ends[i].status;
      if (static_cast<std::int32_t>(i) == broken.value) {
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the device lost its memory"));
      } else {
        EXPECT_EQ(named(status), broken) << status;
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the device lost its memory"));
      }
    }
  }
}

}  // namespace
}  // namespace troupe::test
