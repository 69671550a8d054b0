#include "actors/train/assigner.h"

#include <algorithm>
#include <chrono>

namespace troupe::actors {

Assigner::Assigner(Setup setup)
    : setup_(std::move(setup)),
      rule_(setup_.replicas, setup_.micro_batches),
      step_(setup_.start),
      asks_(static_cast<std::size_t>(setup_.replicas), false),
      ended_(static_cast<std::size_t>(setup_.replicas), setup_.start),
      given_(static_cast<std::size_t>(setup_.replicas), 0) {
  on(&Assigner::asked);
  on(&Assigner::reconsider);
}

void Assigner::connect_to(std::vector<std::vector<actor::Ref>> replicas) {
  TROUPE_CHECK(static_cast<int>(replicas.size()) == setup_.replicas) << replicas.size() << " replicas of " << setup_.replicas;
  replicas_ = std::move(replicas);
}

void Assigner::started() {
  names_ = {.progress = name_for("progress"), .replicas = {}};
  for (const auto& processes : replicas_) names_.replicas.push_back(processes.empty() ? trace::Name() : name_for(processes.front().name()));
}

void Assigner::asked(MicroBatchAsked message) {
  const auto replica = static_cast<std::size_t>(message.replica);
  TROUPE_CHECK(replica < asks_.size()) << "a question of replica " << message.replica << " of " << asks_.size();
  if (message.step <= ended_[replica]) return;  // said before it heard that its share had ended
  TROUPE_CHECK(message.step.value == ended_[replica].value + 1)
      << "replica " << replica << " asked for step " << message.step << ", its share of step " << ended_[replica] << " was the last to end";
  const bool answered = message.next < given_[replica];  // the answer is on its way
  if (setup_.record) {
    step_ = std::max(step_, message.step);
    if (!answered) follow_record(message.replica, message.step);
    return;
  }
  if (message.step < step_) return answer(message.replica, -1, true);  // all of it was given out before the next was opened
  if (message.step > step_) open(message.step);
  rule_.progressed(message.replica, message.finished, message.open, message.pace_ns, now_ns());
  if (!answered) asks_[replica] = true;
  hand_out();
}

void Assigner::reconsider(Reconsider) {
  timer_ = false;
  hand_out();
}

// All of the step before are with somebody: only then has any replica heard that its share had ended, and asks for the next.
void Assigner::open(StepId step) {
  rule_.open_step();
  step_ = step;
}

void Assigner::hand_out() {
  while (const auto replica = rule_.left() > 0 ? rule_.choose(asks_, now_ns()) : std::nullopt) {
    const int micro_batch = rule_.give(*replica);
    answer(*replica, micro_batch, rule_.left() == 0);
  }
  if (rule_.left() == 0) {
    for (int replica = 0; replica < setup_.replicas; ++replica) {
      if (asks_[static_cast<std::size_t>(replica)]) answer(replica, -1, true);
    }
  }
  const bool waits = std::find(asks_.begin(), asks_.end(), true) != asks_.end();
  if (waits && !timer_ && rule_.computing()) {
    timer_ = true;
    send_after(std::chrono::nanoseconds(rule_.patience_ns()), Reconsider{});
  }
  show_state();
}

void Assigner::follow_record(int replica, StepId step) {
  const auto& share = setup_.record->share(step, replica);
  const auto at = static_cast<std::size_t>(given_[static_cast<std::size_t>(replica)]);
  if (at < share.size()) {
    answer(replica, share[at], at + 1 == share.size());
  } else {
    answer(replica, -1, true);
  }
}

void Assigner::answer(int replica, std::int32_t micro_batch, bool last) {
  const auto at = static_cast<std::size_t>(replica);
  asks_[at] = false;
  const StepId step(ended_[at].value + 1);
  ++given_[at];
  if (last) ended_[at] = step, given_[at] = 0;
  for (const auto& process : replicas_[at]) send(process, MicroBatchAssigned{step, micro_batch, last});
}

void Assigner::show_state() {
  const bool waits = std::find(asks_.begin(), asks_.end(), true) != asks_.end();
  const auto computes = static_cast<std::size_t>(std::find(asks_.begin(), asks_.end(), false) - asks_.begin());
  if (waits && computes < asks_.size()) {
    set_state(trace::State::kWaitingForInput, names_.progress, step_.value, names_.replicas[computes]);
  } else {
    set_state(trace::State::kIdle, {}, step_.value);
  }
}

}  // namespace troupe::actors
