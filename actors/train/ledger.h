// Opens steps and closes them; decides clip, skip, save, evaluation, stop. The only place that knows what a step amounted to.
//
// Acts:  all replicas ready -> OpenStep; every replica's loss, every block's norm and, where one is due, every batch of the evaluation of
//        the weights before -> StepDecided; all replicas updated -> the step is closed: report, snapshot, evaluation, next OpenStep or the end.
// A step is decided once the reporter has taken the one before, which it does when it has written the one before that: a disk that stands still
// holds the run up, nothing grows (Ledger.WaitsForTheReporterTwoStepsBehind). What it says to people it says on the terminal's stream.
// Says: whom it waits for, the first of the processes that have not answered yet by their agent's name.
// One save is in flight at a time: one that falls due meanwhile is put off to the first step that closes after SaveDone, and said.
// Fails: when a replica begins elsewhere than the others, or with another config; when too many steps in a row were skipped; when the last save failed (the others are reported and the run goes on).
// Threads: an actor's; connect_to before the System starts. Owns: the run's state (RunState) between checkpoints; plan, config and the compute
//        stream outlive it. Units: ns of the System's clock; losses are sums over tokens until the step is decided. Errors: a loss, norm or
//        update of another step than the open one is a bug.
// Invariants: no step closes twice, none is opened before the one before is closed (Ledger.ClosesEachStepOnce); norm and loss are folded
//        in the order of blocks, of the micro-batches as a replica computed them, and of replicas; the validation loss in that of its batches; what is saved was reported (Kill.TheRunThatGoesOnIsBitwiseTheUndisturbedOne).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/plan/plan.h"
#include "actors/protocol.h"
#include "actors/train/spike_guard.h"
#include "runtime/actor/actor.h"
#include "runtime/base/log.h"
#include "runtime/trace/training_probe.h"

namespace troupe::actors {

class Ledger : public actor::Actor {
 public:
  struct Setup {
    const plan::Plan& plan;
    const plan::JobConfig& job;
    RunState start;              // after the last step that is done; step 0 for a new run
    bool save = true;            // checkpoints are taken at all
    StepId hold_after = StepId(INT64_MAX);
    const device::Stream& compute;  // its waits for other streams are waits for snapshots
    device::Stream& terminal;    // may block
    trace::TrainingProbe* seen = nullptr;  // what is shown of training to whoever looks inside; outlives it
  };
  explicit Ledger(Setup setup);
  // `replicas`: the agents of all processes, by rank; the others are this process's.
  void connect_to(std::vector<actor::Ref> replicas, actor::Ref writer, actor::Ref reporter);

 private:
  void started() override;
  void replica_updated(ReplicaUpdated message);
  void replica_ready(const ReplicaUpdated& message);
  void loss_measured(StepLossMeasured message);
  void norm_measured(NormMeasured message);
  void fed(StepFed message);
  void evaluated(EvaluationMeasured message);
  void written(StepWritten message);
  void saved(SaveDone message);
  void hold_after(HoldAfter message);
  void stop_asked(StopRequested message);
  void stop_requested() override;

  void open_next();
  void decide_if_known();
  void close();
  void evaluate_from(std::int32_t begin);
  void after_close();
  void report_closed();
  void go_on();
  void say(LogLevel level, std::string text);
  bool save_due() const;
  void start_save();
  int norms_due() const { return static_cast<int>(norms_.size() * norms_.front().size()); }
  bool measured() const { return losses_known_ == static_cast<int>(losses_.size()) && norms_known_ == norms_due(); }
  bool all_updated(Rank rank);
  bool last_step() const { return stopping_ || state_.step.value >= setup_.job.training.steps; }
  // What it waits for, and from whom.
  struct Awaited {
    trace::Name what, from;
    StepId step;
    bool operator==(const Awaited& other) const { return what.id == other.what.id && from.id == other.from.id && step == other.step; }
  };
  std::optional<Awaited> awaited();
  trace::Name without_loss() const;
  trace::Name without_norm();
  trace::Name without_update() const;
  trace::Name without_evaluation() const;
  void show_state();

  const Setup setup_;
  std::vector<actor::Ref> replicas_;
  actor::Ref writer_, reporter_;

  RunState state_;                             // after the last closed step
  SpikeGuard guard_;
  bool ready_ = false;                         // all processes have begun
  bool open_ = false, decided_ = false;
  std::int64_t opened_ns_ = 0;
  std::optional<std::int64_t> held_up_ns_;     // since when the open step could be decided and waits for the one before to be reported
  std::int64_t evaluation_wait_ns_ = 0;        // of the open step, so spent
  std::vector<std::optional<LossTotal>> losses_;  // by replica
  std::vector<std::vector<std::optional<double>>> norms_;  // by block, and by replica where each holds a part
  int losses_known_ = 0, norms_known_ = 0;
  std::vector<bool> updated_;                  // by rank
  int updates_known_ = 0;
  StepReport report_;                          // of the open step
  std::optional<StepReport> unreported_;       // closed; its evaluation is still going on, or the reporter writes the one before
  bool evaluating_ = false, reporting_ = false;
  LossTotal evaluation_;                       // of the batches before those that are being evaluated
  std::int32_t evaluation_begin_ = 0;          // the first of these
  std::vector<std::optional<LossTotal>> evaluated_;  // each of these
  std::size_t evaluated_known_ = 0;
  bool saving_ = false, save_put_off_ = false;
  std::optional<RunState> unwritten_;          // its snapshot is asked for; the writer hears of it once the step is reported
  std::int64_t saved_step_ = -1;
  std::int64_t waited_ns_ = 0;
  StepId hold_after_;                          // no step after it is opened
  bool holding_ = false;                       // a step could be opened and is not
  bool stopping_ = false, gives_up_ = false, finished_ = false;
  Status last_save_;
  struct {
    trace::Name weights, evaluation, loss, norms, updates, save, report;  // what it waits for
    std::vector<trace::Name> replicas;                                    // by rank
    trace::Name writer, reporter;
  } names_;
  std::vector<int> part_of_block_;             // in which process of a replica it is measured
  std::size_t norms_seen_ = 0;                 // all before are known, of the blocks from the last to the first
  std::optional<Awaited> shown_;
};

}  // namespace troupe::actors
