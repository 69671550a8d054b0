#include "actors/train/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "actors/train/lr_schedule.h"
#include "kernels/ref/ref.h"
#include "runtime/actor/sim_world.h"
#include "runtime/base/log.h"
#include "tests/support/tiny_job.h"
#include "tests/unit/actors/inbox.h"

namespace troupe::test {
namespace {

using namespace actors;
using testing::ElementsAre, testing::HasSubstr;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTokens = 64;

// A real ledger; the test plays replicas, writer and reporter.
class Ledger : public testing::Test {
 protected:
  Ledger() { set_log_level(LogLevel::kError); }
  ~Ledger() override { set_log_level(LogLevel::kInfo); }

  void begin(const std::vector<std::string>& overrides, RunState start = {}, bool save = true, bool all_ready = true) {
    const auto job = plan::parse_job_config(test::tiny_config("corpus", "run"), "test.toml", overrides);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *job;
    const auto plan = plan::make_plan(job_, {.threads = 1}, kernels::ref::table());
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    auto& ledger = world_.system().add<actors::Ledger>("ledger", actors::Ledger::Setup{.plan = plan_, .job = job_, .start = start, .save = save,
                                                                       .compute = world_.add_stream("compute"), .terminal = world_.add_stream("terminal"), .seen = &seen_});
    ledger_ = ledger.self();
    std::vector<actor::Ref> replicas;
    for (int i = 0; i < plan_.replicas; ++i) {
      replicas_.push_back(&world_.system().add<Replica>("replica-" + std::to_string(i)));
      replicas.push_back(replicas_.back()->self());
    }
    ledger.connect_to(replicas, writer_.self(), reporter_.self());
    world_.start();
    if (all_ready) updated(start.step.value);
  }
  template <class M>
  void tell(M message) {
    ledger_.send(std::move(message));
    settle();
  }
  void settle() {
    (void)world_.run();
    while (reporter_writes_ && written_ < reporter_.count<StepClosed>()) {
      ledger_.send(StepWritten{reporter_.of<StepClosed>()[written_++].report.step});
      (void)world_.run();
    }
  }
  std::int32_t blocks() const { return static_cast<std::int32_t>(plan_.blocks.size()); }

  // Each shard's share of the norm is 1 / blocks, so gradient / tokens has the norm given.
  void measured(std::int64_t step, double loss, double norm = 0.5) {
    for (std::int32_t block = blocks(); block-- > 0;) {
      tell(NormMeasured{StepId(step), BlockIndex(block), norm * norm * kTokens * kTokens / blocks()});
    }
    tell(StepLossMeasured{StepId(step), {loss * kTokens, kTokens}});
  }
  void updated(std::int64_t step) {
    for (int i = plan_.replicas; i-- > 0;) tell(ReplicaUpdated{StepId(step), Rank(i), plan::fingerprint(job_)});
  }
  void whole_step(std::int64_t step, double loss = 2, double norm = 0.5) {
    measured(step, loss, norm);
    updated(step);
  }
  bool ended() const { return replicas_.back()->count<JobEnded>() == 1; }
  Status result() const { return replicas_.back()->last<JobEnded>().result; }
  const StepDecided& decision() const { return replicas_.front()->last<StepDecided>(); }
  const StepReport& report() const { return reporter_.last<StepClosed>().report; }
  std::vector<std::int64_t> saves() const {
    std::vector<std::int64_t> steps;
    for (const auto& save : writer_.of<SaveRequested>()) steps.push_back(save.state.step.value);
    return steps;
  }

  using Replica = test::Inbox<OpenStep, StepDecided, SnapshotRequested, EvaluationRequested, JobEnded, StopRequested>;
  actor::SimWorld world_{7};
  device::SimStream& time_ = world_.add_stream("time", [](std::uint64_t) { return 1'000'000'000; });
  trace::TrainingProbe seen_{trace::Ticks(&world_.clock()), {.steps = 3}};
  plan::JobConfig job_;
  plan::Plan plan_;
  test::Inbox<SaveRequested>& writer_ = world_.system().add<test::Inbox<SaveRequested>>("writer");
  test::Inbox<StepClosed>& reporter_ = world_.system().add<test::Inbox<StepClosed>>("reporter");
  bool reporter_writes_ = true;
  std::size_t written_ = 0;                    // of what the reporter got
  std::vector<Replica*> replicas_;
  actor::Ref ledger_;
};

TEST_F(Ledger, ClosesEachStepOnce) {
  begin({"--training.steps=3"}, {}, false);
  for (std::int64_t step = 1; step <= 3; ++step) {
    ASSERT_EQ(replicas_.front()->count<OpenStep>(), static_cast<std::size_t>(step));  // opened once the one before is closed
    EXPECT_EQ(replicas_.front()->last<OpenStep>().step, StepId(step));
    EXPECT_EQ(replicas_.front()->last<OpenStep>().cursor, (step - 1) * 4);
    measured(step, 2);
    for (const auto* replica : replicas_) ASSERT_EQ(replica->count<StepDecided>(), static_cast<std::size_t>(step));
    ASSERT_EQ(reporter_.count<StepClosed>(), static_cast<std::size_t>(step - 1));  // not before every replica is updated
    updated(step);
    ASSERT_EQ(reporter_.count<StepClosed>(), static_cast<std::size_t>(step));
    EXPECT_EQ(report().step, StepId(step));
  }
  EXPECT_TRUE(ended());  // the job is over
  EXPECT_TRUE(result().ok());
}

TEST_F(Ledger, DecidesOnlyWhenLossAndEveryNormAreKnown) {
  begin({});
  tell(StepLossMeasured{StepId(1), {2, 1}});
  for (std::int32_t block = 0; block + 1 < blocks(); ++block) tell(NormMeasured{StepId(1), BlockIndex(block), 1});
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 0u);
  tell(NormMeasured{StepId(1), BlockIndex(blocks() - 1), 1});
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 1u);
}

// Case T41's kind, over replicas: sums of all, divided by the tokens of all.
TEST_F(Ledger, FoldsTheLossesOfAllReplicasInTheirOrder) {
  begin({"--parallelism.data_parallel=2", "--training.steps=9", "--training.max_norm=0"});
  for (std::int32_t block = 0; block < blocks(); ++block) tell(NormMeasured{StepId(1), BlockIndex(block), 1});
  tell(StepFed{StepId(1), 5, 70, 1});
  tell(StepLossMeasured{StepId(1), {90, 30}, 1});
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 0u);  // replica 0 has not measured
  tell(StepFed{StepId(1), 9, 7, 0});
  tell(StepLossMeasured{StepId(1), {10, 10}, 0});
  for (const auto* replica : replicas_) {
    ASSERT_EQ(replica->count<StepDecided>(), 1u);
    EXPECT_NEAR(replica->last<StepDecided>().gradient_scale, 1.0 / 40, 1e-15);
  }
  tell(ReplicaUpdated{StepId(1), Rank(1), plan::fingerprint(job_)});
  EXPECT_EQ(reporter_.count<StepClosed>(), 0u);  // replica 0 still updates
  tell(ReplicaUpdated{StepId(1), Rank(0), plan::fingerprint(job_)});
  ASSERT_EQ(reporter_.count<StepClosed>(), 1u);
  EXPECT_NEAR(report().loss, 100.0 / 40, 1e-15);
  EXPECT_EQ(report().tokens, 40);
  EXPECT_EQ(report().data_wait_ns, 9);
  EXPECT_EQ(report().sample_hash, 77u);
}

TEST_F(Ledger, ReportsWhoComputedWhatWhereReplicasPull) {
  begin({"--parallelism.data_parallel=2", "--training.steps=9", "--parallelism.balance=pull"});
  tell(StepFed{.step = StepId(1), .replica = 1, .pulled = {3}});
  tell(StepFed{.step = StepId(1), .replica = 0, .pulled = {0, 2, 1}});
  for (int replica : {1, 0}) tell(StepLossMeasured{StepId(1), {20, 10}, replica});
  for (std::int32_t block = 0; block < blocks(); ++block) tell(NormMeasured{StepId(1), BlockIndex(block), 1});
  for (int replica : {0, 1}) tell(ReplicaUpdated{StepId(1), Rank(replica), plan::fingerprint(job_)});
  EXPECT_THAT(report().assigned, ElementsAre(ElementsAre(0, 2, 1), ElementsAre(3)));
}

// With ZeRO each replica measures its part of a block: all of them are due.
TEST_F(Ledger, AddsTheNormsOfAllPartsOfABlock) {
  begin({"--parallelism.data_parallel=2", "--parallelism.zero=1", "--training.steps=9", "--training.max_norm=0"});
  for (int replica : {1, 0}) tell(StepLossMeasured{StepId(1), {20, 10}, replica});
  for (std::int32_t block = 0; block < blocks(); ++block) {
    EXPECT_EQ(replicas_.front()->count<StepDecided>(), 0u);
    tell(NormMeasured{StepId(1), BlockIndex(block), 9.0 / blocks(), 1});
    tell(NormMeasured{StepId(1), BlockIndex(block), 16.0 / blocks(), 0});
  }
  ASSERT_EQ(replicas_.back()->count<StepDecided>(), 1u);
  for (int replica : {0, 1}) tell(ReplicaUpdated{StepId(1), Rank(replica), plan::fingerprint(job_)});
  EXPECT_NEAR(report().grad_norm, 5.0 / 20, 1e-12);
}

TEST_F(Ledger, RefusesAReplicaThatBeginsElsewhere) {
  begin({"--parallelism.data_parallel=2"}, {}, false, /*all_ready=*/false);
  tell(ReplicaUpdated{StepId(3), Rank(1), plan::fingerprint(job_)});
  EXPECT_EQ(world_.system().outcome().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(world_.system().outcome().message()), HasSubstr("rank 1 resumed after step 3, this process after step 0"));
}

TEST_F(Ledger, RefusesAReplicaWithAnotherConfig) {
  begin({"--parallelism.data_parallel=2"}, {}, false, /*all_ready=*/false);
  tell(ReplicaUpdated{StepId(0), Rank(1), plan::fingerprint(job_) + 1});
  EXPECT_THAT(std::string(world_.system().outcome().message()), HasSubstr("rank 1 runs another config"));
}

TEST_F(Ledger, TakesASecondClosingOfAStepForABug) {
  begin({"--training.steps=9"});
  whole_step(1);
  EXPECT_DEATH(updated(1), "out of turn");
  EXPECT_DEATH(tell(StepLossMeasured{StepId(1), {1, 1}}), "out of turn");
}

TEST_F(Ledger, DividesByTokensAndClips) {
  begin({"--training.max_norm=1", "--training.steps=9"});
  measured(1, 2, 0.5);
  EXPECT_NEAR(decision().gradient_scale, 1 / kTokens, 1e-15);  // below the limit
  EXPECT_FALSE(decision().skip);
  updated(1);
  EXPECT_NEAR(report().loss, 2, 1e-12);
  EXPECT_NEAR(report().grad_norm, 0.5, 1e-12);
  measured(2, 2, 4);
  EXPECT_NEAR(decision().gradient_scale, 1 / (4 + 1e-6) / kTokens, 1e-15);
}

TEST_F(Ledger, DoesNotClipWithoutALimit) {
  begin({"--training.max_norm=0"});
  measured(1, 2, 400);
  EXPECT_NEAR(decision().gradient_scale, 1 / kTokens, 1e-15);
}

// CASES T57. A skipped step is no update: AdamW's step does not move.
TEST_F(Ledger, SkipsAStepThatIsNotFinite) {
  begin({"--training.steps=9"});
  whole_step(1);
  EXPECT_EQ(decision().update, 1);
  whole_step(2, kNan);
  EXPECT_TRUE(decision().skip);
  EXPECT_TRUE(report().skipped);
  EXPECT_EQ(report().skip_reason, "loss is nan");
  whole_step(3, 2, kInfinity);
  EXPECT_TRUE(decision().skip);
  EXPECT_EQ(report().skip_reason, "gradient norm is inf");
  whole_step(4);
  EXPECT_FALSE(decision().skip);
  EXPECT_EQ(decision().update, 2);
  for (const auto* shard : replicas_) {  // the same decision everywhere
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(shard->of<StepDecided>()[i].skip, i == 1 || i == 2);
  }
}

TEST_F(Ledger, SkipsASpike) {  // CASES T57
  begin({"--training.steps=90", "--spike.factor=3"});
  std::int64_t step = 1;
  for (; step <= SpikeGuard::kWarmup; ++step) whole_step(step, 2);
  EXPECT_FALSE(report().skipped);
  whole_step(step, 6.5);
  EXPECT_TRUE(report().skipped);
  EXPECT_THAT(report().skip_reason, HasSubstr("more than 3 times its average 2"));
  whole_step(step + 1, 5.9);
  EXPECT_FALSE(report().skipped);
}

TEST_F(Ledger, FailsAfterTooManySkipsInARow) {
  begin({"--training.steps=9", "--spike.max_skipped=1"});
  whole_step(1, kNan);
  EXPECT_TRUE(world_.system().outcome().ok());
  whole_step(2, kNan);
  const Status status = world_.system().outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 steps in a row were skipped, the last one (step 2) because loss is nan"));
}

// CASES T22's kind.
TEST_F(Ledger, CountsTheSkipsInARowOverAResume) {
  begin({"--training.steps=9", "--spike.max_skipped=3", "--checkpoint.interval=2"});
  whole_step(1, kNan);
  whole_step(2, kNan);
  EXPECT_EQ(writer_.last<SaveRequested>().state.skipped_in_a_row, 2);
  whole_step(3);
  tell(SaveDone{.step = StepId(2), .result = ok(), .folder = "x"});
  whole_step(4);
  EXPECT_EQ(writer_.last<SaveRequested>().state.skipped_in_a_row, 0);
}

TEST_F(Ledger, GivesUpOnSkipsInARowThatBeganBeforeAResume) {
  begin({"--training.steps=9", "--spike.max_skipped=2"}, {.step = StepId(5), .samples = 20, .skipped = 2, .skipped_in_a_row = 2});
  whole_step(6, kNan);
  EXPECT_THAT(std::string(world_.system().outcome().message()), HasSubstr("3 steps in a row were skipped, the last one (step 6)"));
}

TEST_F(Ledger, PutsASaveOffWhileOneIsBeingWritten) {  // CASES T16
  begin({"--training.steps=9", "--checkpoint.interval=2"});
  whole_step(1);
  EXPECT_THAT(saves(), ElementsAre());
  whole_step(2);
  EXPECT_THAT(saves(), ElementsAre(2));
  for (const auto* replica : replicas_) EXPECT_EQ(replica->last<SnapshotRequested>().step, StepId(2));
  whole_step(3);
  whole_step(4);  // due, and the one before is not written yet
  EXPECT_THAT(saves(), ElementsAre(2));
  tell(SaveDone{.step = StepId(2), .result = ok(), .folder = "x"});
  EXPECT_THAT(saves(), ElementsAre(2));  // step 5 is open: its weights change
  whole_step(5);
  EXPECT_THAT(saves(), ElementsAre(2, 5));
  const auto& state = writer_.last<SaveRequested>().state;
  EXPECT_EQ(state.samples, 5 * 4);
  EXPECT_EQ(state.updates, 5);
  EXPECT_EQ(state.tokens, static_cast<std::int64_t>(5 * kTokens));
}

TEST_F(Ledger, SavesAtTheEndAndEndsWhenThatIsWritten) {
  begin({"--training.steps=2", "--checkpoint.interval=0"});
  whole_step(1);
  whole_step(2);
  EXPECT_THAT(saves(), ElementsAre(2));
  EXPECT_FALSE(ended());
  tell(SaveDone{.step = StepId(2), .result = ok(), .folder = "x"});
  EXPECT_TRUE(ended());
  EXPECT_TRUE(result().ok());
}

TEST_F(Ledger, GoesOnAfterAFailedSaveAndFailsWhenTheLastOneDid) {
  begin({"--training.steps=3", "--checkpoint.interval=1"});
  whole_step(1);
  tell(SaveDone{.step = StepId(1), .result = absl::ResourceExhaustedError("the disk is full"), .folder = ""});
  whole_step(2);
  EXPECT_THAT(saves(), ElementsAre(1, 2));
  tell(SaveDone{.step = StepId(2), .result = ok(), .folder = "x"});
  whole_step(3);
  tell(SaveDone{.step = StepId(3), .result = absl::ResourceExhaustedError("the disk is full"), .folder = ""});
  EXPECT_TRUE(ended());
  EXPECT_EQ(result().code(), absl::StatusCode::kResourceExhausted);
}

// The last save is tried although the one that it had to wait for failed.
TEST_F(Ledger, TriesTheLastSaveAlsoAfterTheOneBeforeFailed) {
  begin({"--training.steps=2", "--checkpoint.interval=1"});
  whole_step(1);
  whole_step(2);
  tell(SaveDone{.step = StepId(1), .result = absl::ResourceExhaustedError("the disk is full"), .folder = ""});
  EXPECT_THAT(saves(), ElementsAre(1, 2));
  tell(SaveDone{.step = StepId(2), .result = ok(), .folder = "x"});
  EXPECT_TRUE(ended());
  EXPECT_TRUE(result().ok());
}

TEST_F(Ledger, WaitsForTheEvaluationBeforeTheWeightsChange) {
  begin({"--training.steps=3", "--validation.interval=1", "--validation.steps=1", "--data.validation=corpus"}, {}, false);
  whole_step(1);
  EXPECT_EQ(replicas_.front()->last<EvaluationRequested>().step, StepId(1));
  EXPECT_EQ(reporter_.count<StepClosed>(), 0u);
  measured(2, 2);
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 1u);  // step 2 is measured and not decided
  tell(EvaluationMeasured{StepId(1), {{30, 10}}});
  EXPECT_EQ(report().validation_loss, 3);
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 2u);
}

// With the wait for an evaluation: what whoever looks inside is shown adds up.
TEST_F(Ledger, ShowsWhatTheStepsHaveComeToAndWhereTheTimeWent) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const auto passes = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) time_.enqueue([](device::StreamContext&) {});
    settle();
  };
  const auto lost_ns = [&](const std::string& type) {
    for (const auto& loss : seen_.row().badput) {
      if (loss.type == type) return loss.spent_ns;
    }
    return std::int64_t{-1};
  };
  begin({"--training.steps=3", "--validation.interval=1", "--validation.steps=1", "--data.validation=corpus"}, {}, false, false);
  passes(3);
  updated(0);
  passes(10);
  tell(StepFed{.step = StepId(1), .waited_ns = 2 * kSecond});
  whole_step(1, 2.5);
  EXPECT_EQ(seen_.row().loss, 2.5);
  EXPECT_NEAR(seen_.row().grad_norm.value_or(0), 0.5, 1e-12);
  EXPECT_EQ(seen_.row().validation_loss, std::nullopt);
  measured(2, 2);
  passes(4);  // step 2 is measured and waits
  tell(EvaluationMeasured{StepId(1), {{30, 10}}});
  EXPECT_EQ(seen_.row().validation_loss, 3);
  EXPECT_EQ(seen_.row().validation_step, 1);
  passes(1);
  updated(2);
  const trace::TrainingRow row = seen_.row();
  EXPECT_EQ(row.step, 2);
  EXPECT_EQ(row.loss, 2);
  EXPECT_EQ(lost_ns("startup"), 3 * kSecond);
  EXPECT_EQ(lost_ns("data_wait"), 2 * kSecond);
  EXPECT_EQ(lost_ns("evaluation_wait"), 4 * kSecond);
  EXPECT_EQ(row.useful_ns, 9 * kSecond);
  EXPECT_EQ(row.wall_ns, 18 * kSecond);
}

// The same sum in the same order, whoever computed a batch and whenever it came.
TEST_F(Ledger, AddsTheBatchesOfAllReplicasInTheOrderOfTheirIndex) {
  begin({"--parallelism.data_parallel=2", "--training.steps=2", "--validation.interval=1", "--validation.steps=3", "--data.validation=corpus"},
        {}, false);
  tell(StepLossMeasured{StepId(1), {20, 10}, 0});
  tell(StepLossMeasured{StepId(1), {20, 10}, 1});
  for (std::int32_t block = 0; block < blocks(); ++block) tell(NormMeasured{StepId(1), BlockIndex(block), 1});
  updated(1);
  for (const auto* replica : replicas_) {  // all take part
    EXPECT_EQ(replica->last<EvaluationRequested>().begin, 0);
    EXPECT_EQ(replica->last<EvaluationRequested>().end, 3);
  }
  tell(EvaluationMeasured{StepId(1), {{-1e16, 1}}, 1});
  EXPECT_EQ(reporter_.count<StepClosed>(), 0u);
  tell(EvaluationMeasured{StepId(1), {{1e16, 1}, {1, 2}}, 0});
  EXPECT_EQ(report().validation_loss, 0.25);  // in another order: 0
}

// What a message holds does not grow with validation.steps.
TEST_F(Ledger, AsksForTheNextBatchesOfAnEvaluationWhenTheFirstAreKnown) {
  begin({"--parallelism.data_parallel=2", "--training.steps=2", "--validation.interval=1", "--validation.steps=257", "--data.validation=corpus"},
        {}, false);
  for (int replica : {0, 1}) tell(StepLossMeasured{StepId(1), {20, 10}, replica});
  for (std::int32_t block = 0; block < blocks(); ++block) tell(NormMeasured{StepId(1), BlockIndex(block), 1});
  updated(1);
  EXPECT_EQ(replicas_.back()->last<EvaluationRequested>().end, 256);
  for (int replica : {1, 0}) {
    EXPECT_EQ(replicas_.back()->count<EvaluationRequested>(), 1u);
    tell(EvaluationMeasured{StepId(1), std::vector<LossTotal>(plan::kEvaluationRound, {2, 1}), replica});
  }
  ASSERT_EQ(replicas_.back()->count<EvaluationRequested>(), 2u);
  EXPECT_EQ(replicas_.back()->last<EvaluationRequested>().begin, 256);
  EXPECT_EQ(replicas_.back()->last<EvaluationRequested>().end, 257);
  EXPECT_EQ(reporter_.count<StepClosed>(), 0u);
  tell(EvaluationMeasured{StepId(1), {{512, 1}}, 0});  // replica 1 has none
  EXPECT_EQ(report().validation_loss, (256 * 2 + 512) / 257.0);
}

// A disk that takes nothing: the run stands still, the reporter has one message at most.
TEST_F(Ledger, WaitsForTheReporterTwoStepsBehind) {
  begin({"--training.steps=3"});
  reporter_writes_ = false;
  whole_step(1);
  whole_step(2);
  EXPECT_EQ(reporter_.count<StepClosed>(), 1u);
  measured(3, 2);
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 2u);  // step 3 is measured and not decided
  tell(StepWritten{StepId(1)});
  EXPECT_EQ(report().step, StepId(2));
  EXPECT_EQ(replicas_.front()->count<StepDecided>(), 3u);
  updated(3);
  EXPECT_THAT(saves(), testing::IsEmpty());  // what is saved was reported
  tell(StepWritten{StepId(2)});
  EXPECT_THAT(saves(), ElementsAre(3));
  tell(SaveDone{.step = StepId(3), .result = ok(), .folder = "x"});
  EXPECT_FALSE(ended());
  tell(StepWritten{StepId(3)});
  EXPECT_TRUE(ended());
}

TEST_F(Ledger, StopsAfterTheOpenStepWithASave) {
  begin({"--training.steps=9", "--checkpoint.interval=0"});
  tell(StopRequested{"signal"});
  EXPECT_FALSE(ended());
  for (const auto* replica : replicas_) EXPECT_EQ(replica->count<StopRequested>(), 1u);
  whole_step(1);
  EXPECT_THAT(saves(), ElementsAre(1));
  tell(SaveDone{.step = StepId(1), .result = ok(), .folder = "x"});
  EXPECT_TRUE(ended());
  EXPECT_EQ(replicas_.front()->count<OpenStep>(), 1u);
}

// CASES T09, T02.
TEST_F(Ledger, ResumesWithTheRateAndTheCursorOfItsStep) {
  begin({"--training.steps=9", "--lr_scheduler.warmup_steps=2"}, {.step = StepId(5), .samples = 20, .tokens = 320, .updates = 4});
  EXPECT_EQ(replicas_.front()->last<OpenStep>().step, StepId(6));
  EXPECT_EQ(replicas_.front()->last<OpenStep>().cursor, 20);
  measured(6, 2);
  EXPECT_EQ(decision().update, 5);
  EXPECT_EQ(decision().learning_rate, learning_rate(job_.lr_scheduler, job_.optimizer.lr, StepId(6)));
  EXPECT_GT(decision().learning_rate, 0);
  EXPECT_LT(decision().learning_rate, job_.optimizer.lr);
}

}  // namespace
}  // namespace troupe::test
