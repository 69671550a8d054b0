#include "actors/train/ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actors/train/lr_schedule.h"

namespace troupe::actors {

Ledger::Ledger(Setup setup)
    : setup_(std::move(setup)),
      state_(setup_.start),
      guard_(setup_.job.spike, state_.loss_average, state_.averaged, state_.skipped_in_a_row),
      losses_(static_cast<std::size_t>(setup_.plan.replicas)),
      norms_(setup_.plan.blocks.size(),
             std::vector<std::optional<double>>(setup_.plan.share(0).splits_optimizer() ? losses_.size() : 1)),
      updated_(static_cast<std::size_t>(setup_.plan.placement.world())) {
  saved_step_ = state_.step.value;
  hold_after_ = setup_.hold_after;
  part_of_block_.resize(norms_.size());
  for (int part = 0; part < setup_.plan.placement.parts; ++part) {
    for (const auto& layout : setup_.plan.blocks_of(part)) part_of_block_[static_cast<std::size_t>(layout.block.value)] = part;
  }
  on(&Ledger::replica_updated);
  on(&Ledger::loss_measured);
  on(&Ledger::norm_measured);
  on(&Ledger::fed);
  on(&Ledger::evaluated);
  on(&Ledger::written);
  on(&Ledger::saved);
  on(&Ledger::hold_after);
  on(&Ledger::stop_asked);
}

void Ledger::connect_to(std::vector<actor::Ref> replicas, actor::Ref writer, actor::Ref reporter) {
  const int processes = setup_.plan.placement.world();
  TROUPE_CHECK(static_cast<int>(replicas.size()) == processes) << replicas.size() << " agents of " << processes << " processes";
  replicas_ = std::move(replicas);
  writer_ = std::move(writer);
  reporter_ = std::move(reporter);
}

void Ledger::started() {
  names_ = {.weights = name_for("weights"), .evaluation = name_for("evaluation"), .loss = name_for("loss"), .norms = name_for("norms"),
            .updates = name_for("updates"), .save = name_for("save"), .report = name_for("report"), .replicas = {},
            .writer = name_for(writer_.name()), .reporter = name_for(reporter_.name())};
  for (const auto& replica : replicas_) names_.replicas.push_back(name_for(replica.name()));
  show_state();
}

void Ledger::replica_updated(ReplicaUpdated message) {
  if (!ready_) {
    replica_ready(message);
    return;
  }
  TROUPE_CHECK(open_ && decided_ && message.step == report_.step)
      << "rank " << message.rank << " updated for step " << message.step << " out of turn";
  if (all_updated(message.rank)) close();
}

bool Ledger::all_updated(Rank rank) {
  auto&& updated = updated_.at(static_cast<std::size_t>(rank.value));
  TROUPE_CHECK(!updated) << "rank " << rank << " updated twice for step " << report_.step;
  updated = true;
  if (++updates_known_ < static_cast<int>(replicas_.size())) {
    show_state();
    return false;
  }
  updated_.assign(updated_.size(), false);
  updates_known_ = 0;
  return true;
}

// The weights of the start are there.
void Ledger::replica_ready(const ReplicaUpdated& message) {
  if (message.step != state_.step) {
    fail(absl::FailedPreconditionError(absl::StrCat("rank ", message.rank.value, " resumed after step ", message.step.value,
                                                    ", this process after step ", state_.step.value, ": job.output = ",
                                                    setup_.job.job.output, " must be the same folder for all processes")));
    return;
  }
  if (const auto own = plan::fingerprint(setup_.job); message.job != own) {
    fail(absl::FailedPreconditionError(absl::StrCat("rank ", message.rank.value, " runs another config than this process: start all with the same "
                                                    "file and the same overrides")));
    return;
  }
  if (!all_updated(message.rank)) return;
  ready_ = true;
  after_close();
}

void Ledger::open_next() {
  report_ = {};
  report_.step = StepId(state_.step.value + 1);
  if (setup_.plan.pulls) report_.assigned.resize(static_cast<std::size_t>(setup_.plan.replicas));
  open_ = true;
  decided_ = false;
  losses_.assign(losses_.size(), std::nullopt);
  losses_known_ = 0;
  for (auto& block : norms_) block.assign(block.size(), std::nullopt);
  norms_known_ = 0;
  norms_seen_ = 0;
  opened_ns_ = now_ns();
  evaluation_wait_ns_ = 0;
  if (setup_.seen != nullptr) setup_.seen->opened(opened_ns_);
  for (const auto& replica : replicas_) send(replica, OpenStep{report_.step, state_.samples});
  show_state();
}

void Ledger::loss_measured(StepLossMeasured message) {
  auto& loss = losses_.at(static_cast<std::size_t>(message.replica));
  TROUPE_CHECK(open_ && message.step == report_.step && !loss) << "loss of step " << message.step << " out of turn";
  loss = message.total;
  ++losses_known_;
  decide_if_known();
}

void Ledger::norm_measured(NormMeasured message) {
  auto& norm = norms_.at(static_cast<std::size_t>(message.block.value)).at(static_cast<std::size_t>(message.replica));
  TROUPE_CHECK(open_ && message.step == report_.step && !norm) << "norm of block " << message.block << " at step " << message.step
                                                               << " out of turn";
  norm = message.squares;
  ++norms_known_;
  decide_if_known();
}

void Ledger::fed(StepFed message) {
  if (!open_ || message.step != report_.step) return;
  report_.data_wait_ns = std::max(report_.data_wait_ns, message.waited_ns);
  report_.sample_hash += message.sample_hash;
  if (!message.pulled.empty()) report_.assigned.at(static_cast<std::size_t>(message.replica)) = std::move(message.pulled);
}

void Ledger::decide_if_known() {
  if (!open_ || decided_) return;
  if (!measured() || unreported_) {  // its evaluation's weights must stay until it is done
    if (measured() && !held_up_ns_) held_up_ns_ = now_ns();
    show_state();
    return;
  }
  if (held_up_ns_) evaluation_wait_ns_ += now_ns() - *std::exchange(held_up_ns_, std::nullopt);
  double squares = 0;
  for (const auto& parts : norms_) {
    double block = 0;
    for (const auto& part : parts) block += *part;
    squares += block;
  }
  LossTotal total;
  for (const auto& loss : losses_) total.loss += loss->loss, total.tokens += loss->tokens;
  const double tokens = std::max(1.0, total.tokens);
  report_.loss = total.loss / tokens;
  report_.grad_norm = std::sqrt(squares) / tokens;
  report_.tokens = static_cast<std::int64_t>(total.tokens);
  report_.learning_rate = learning_rate(setup_.job.lr_scheduler, setup_.job.optimizer.lr, report_.step);
  report_.skip_reason = guard_.judge(report_.loss, report_.grad_norm);
  report_.skipped = !report_.skip_reason.empty();

  const double limit = setup_.job.training.max_norm;
  const double clip = limit > 0 && report_.grad_norm > limit ? limit / (report_.grad_norm + 1e-6) : 1.0;
  decided_ = true;
  for (const auto& replica : replicas_) {
    send(replica, StepDecided{report_.step, report_.skipped, state_.updates + 1, report_.learning_rate, clip / tokens});
  }
  show_state();
}

void Ledger::close() {
  open_ = false;
  const std::int64_t closed_ns = now_ns();
  report_.step_ns = closed_ns - opened_ns_;
  report_.checkpoint_wait_ns = setup_.compute.waited_ns() - waited_ns_;
  waited_ns_ += report_.checkpoint_wait_ns;
  state_.step = report_.step;
  state_.samples += setup_.plan.global_batch;
  state_.tokens += report_.tokens;
  state_.updates += report_.skipped ? 0 : 1;
  state_.skipped += report_.skipped ? 1 : 0;
  state_.loss_average = guard_.average();
  state_.averaged = guard_.averaged();
  state_.skipped_in_a_row = guard_.skipped_in_a_row();
  gives_up_ = guard_.gives_up();
  if (setup_.seen != nullptr) {
    setup_.seen->closed({.loss = report_.loss, .grad_norm = report_.grad_norm, .learning_rate = report_.learning_rate, .tokens = report_.tokens,
                         .data_wait_ns = report_.data_wait_ns, .checkpoint_wait_ns = report_.checkpoint_wait_ns,
                         .evaluation_wait_ns = evaluation_wait_ns_, .skipped = report_.skipped},
                        closed_ns);
  }

  const auto interval = setup_.job.validation.interval;
  const bool evaluate = interval > 0 && setup_.plan.evaluation_batches > 0 && (state_.step.value % interval == 0 || state_.step.value == setup_.job.training.steps);
  unreported_ = report_;
  if (evaluate) {
    evaluating_ = true;
    evaluation_ = {};
    evaluate_from(0);
  }
  report_closed();
  if (!gives_up_ && save_due()) start_save();
  after_close();
}

void Ledger::evaluate_from(std::int32_t begin) {
  const auto round = std::int32_t{plan::kEvaluationRound} * setup_.plan.replicas;
  const std::int32_t end = std::min(setup_.plan.evaluation_batches, begin + round);
  evaluation_begin_ = begin;
  evaluated_.assign(static_cast<std::size_t>(end - begin), std::nullopt);
  evaluated_known_ = 0;
  for (const auto& replica : replicas_) send(replica, EvaluationRequested{unreported_->step, begin, end});
}

void Ledger::after_close() {
  if (!last_step() && !gives_up_) {
    holding_ = state_.step >= hold_after_;
    if (holding_) {
      show_state();
    } else {
      open_next();
    }
    return;
  }
  if (unreported_ || reporting_ || saving_ || finished_) {
    show_state();
    return;
  }
  if (gives_up_) {
    fail(absl::AbortedError(absl::StrCat(guard_.skipped_in_a_row(), " steps in a row were skipped, the last one (step ",
                                         state_.step.value, ") because ", report_.skip_reason,
                                         "; spike.max_skipped = ", setup_.job.spike.max_skipped,
                                         ". Lower optimizer.lr, or resume from an older checkpoint")));
    return;
  }
  if (setup_.save && saved_step_ != state_.step.value) {
    start_save();
    return;
  }
  finished_ = true;
  end_pauses();  // else who hears of it, or carries it to another rank, might not
  // This process's own last: it ends what carries the message to the others.
  for (auto replica = replicas_.rbegin(); replica != replicas_.rend(); ++replica) send(*replica, JobEnded{last_save_});
}

bool Ledger::save_due() const {
  if (!setup_.save || saved_step_ == state_.step.value) return false;
  const auto interval = setup_.job.checkpoint.interval;
  return save_put_off_ || last_step() || (interval > 0 && state_.step.value % interval == 0);
}

void Ledger::start_save() {
  if (saving_) {
    if (!save_put_off_) say(LogLevel::kInfo, absl::StrCat("the save due at step ", state_.step.value, " waits for the one still being written"));
    save_put_off_ = true;
    return;
  }
  save_put_off_ = false;
  saving_ = true;
  saved_step_ = state_.step.value;
  for (const auto& replica : replicas_) send(replica, SnapshotRequested{state_.step});
  // Written only after the step was reported, or a kill right after the save would leave a run whose metrics lack that step for good.
  if (unreported_) {
    unwritten_ = state_;
  } else {
    send(writer_, SaveRequested{state_});
  }
}

void Ledger::saved(SaveDone message) {
  saving_ = false;
  last_save_ = message.result;
  if (!message.result.ok()) {
    say(LogLevel::kError, absl::StrCat("checkpoint of step ", message.step.value, " was not saved, training goes on and the older checkpoint stays: ",
                                       std::string(message.result.message())));
  }
  if (!open_) after_close();
}

void Ledger::evaluated(EvaluationMeasured message) {
  TROUPE_CHECK(evaluating_ && message.step == unreported_->step) << "evaluation of step " << message.step << " out of turn";
  for (std::size_t i = 0; i < message.totals.size(); ++i) {
    auto& batch = evaluated_.at(i * losses_.size() + static_cast<std::size_t>(message.replica));
    TROUPE_CHECK(!batch) << "replica " << message.replica << " evaluated twice at step " << message.step;
    batch = message.totals[i];
    ++evaluated_known_;
  }
  if (evaluated_known_ < evaluated_.size()) {
    show_state();
    return;
  }
  for (const auto& batch : evaluated_) evaluation_.loss += batch->loss, evaluation_.tokens += batch->tokens;
  const auto known = evaluation_begin_ + static_cast<std::int32_t>(evaluated_.size());
  if (known < setup_.plan.evaluation_batches) {
    evaluate_from(known);
    return;
  }
  evaluating_ = false;
  unreported_->validation_loss = evaluation_.loss / std::max(1.0, evaluation_.tokens);
  if (setup_.seen != nullptr) setup_.seen->evaluated(unreported_->step.value, *unreported_->validation_loss);
  go_on();
}

void Ledger::written(StepWritten message) {
  TROUPE_CHECK(reporting_) << "step " << message.step << " is written twice";
  reporting_ = false;
  go_on();
}

// Something that the next step or the end has waited for has come.
void Ledger::go_on() {
  report_closed();
  if (open_) {
    decide_if_known();
  } else {
    after_close();
  }
}

void Ledger::report_closed() {
  if (!unreported_ || evaluating_ || reporting_) return;
  reporting_ = true;
  send(reporter_, StepClosed{*std::exchange(unreported_, std::nullopt)});
  if (unwritten_) send(writer_, SaveRequested{*std::exchange(unwritten_, std::nullopt)});
}

void Ledger::say(LogLevel level, std::string text) {
  setup_.terminal.notify([level, text = std::move(text)](device::StreamContext&) { log(level, text); });
}

void Ledger::hold_after(HoldAfter message) {
  hold_after_ = message.step;
  if (std::exchange(holding_, false)) after_close();
}

void Ledger::stop_asked(StopRequested message) {
  if (stopping_) return;
  stopping_ = true;
  say(LogLevel::kInfo, absl::StrCat(message.reason, ": the run ends after step ", open_ ? report_.step.value : state_.step.value, " with a checkpoint"));
  // Whoever is paused, here or there, would keep the step from its end.
  end_pauses();
  for (const auto& replica : replicas_) send(replica, StopRequested{message.reason});
  if (std::exchange(holding_, false)) after_close();
}

void Ledger::stop_requested() { stop(); }

trace::Name Ledger::without_loss() const {
  const auto replica = std::find(losses_.begin(), losses_.end(), std::nullopt) - losses_.begin();
  const auto& placement = setup_.plan.placement;
  return names_.replicas.at(static_cast<std::size_t>(placement.rank_of(static_cast<int>(replica), placement.parts - 1).value));
}

trace::Name Ledger::without_norm() {
  const std::size_t replicas = norms_.front().size();
  const auto block = [&] { return norms_.size() - 1 - norms_seen_ / replicas; };  // backwards, as they are measured
  while (norms_[block()][norms_seen_ % replicas]) ++norms_seen_;
  return names_.replicas.at(static_cast<std::size_t>(
      setup_.plan.placement.rank_of(static_cast<int>(norms_seen_ % replicas), part_of_block_[block()]).value));
}

trace::Name Ledger::without_update() const {
  return names_.replicas.at(static_cast<std::size_t>(std::find(updated_.begin(), updated_.end(), false) - updated_.begin()));
}

trace::Name Ledger::without_evaluation() const {
  const auto batch = static_cast<std::size_t>(std::find(evaluated_.begin(), evaluated_.end(), std::nullopt) - evaluated_.begin());
  const auto& placement = setup_.plan.placement;
  return names_.replicas.at(static_cast<std::size_t>(placement.rank_of(static_cast<int>(batch % losses_.size()), placement.parts - 1).value));
}

std::optional<Ledger::Awaited> Ledger::awaited() {
  const Awaited report{.what = evaluating_ ? names_.evaluation : names_.report, .from = evaluating_ ? without_evaluation() : names_.reporter,
                       .step = unreported_ ? unreported_->step : state_.step};
  if (!ready_) return Awaited{names_.weights, without_update(), state_.step};
  if (open_ && !decided_ && losses_known_ < static_cast<int>(losses_.size())) return Awaited{names_.loss, without_loss(), report_.step};
  if (open_ && !decided_ && !measured()) return Awaited{names_.norms, without_norm(), report_.step};
  if (open_ && !decided_ && unreported_) return report;
  if (open_ && decided_) return Awaited{names_.updates, without_update(), report_.step};
  if (!open_ && (unreported_ || reporting_)) return report;
  if (!open_ && saving_) return Awaited{names_.save, names_.writer, state_.step};
  return std::nullopt;
}

void Ledger::show_state() {
  const auto now = awaited();
  if (shown_ && now == shown_) return;
  shown_ = now;
  if (now) {
    set_state(trace::State::kWaitingForInput, now->what, now->step.value, now->from);
  } else {
    set_state(trace::State::kIdle);
  }
}

}  // namespace troupe::actors
