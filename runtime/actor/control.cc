// Pause, go on, step: what System passes on to one of its actors.
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/actor/supervisor.h"
#include "runtime/actor/system_core.h"
#include "runtime/base/edit_distance.h"

namespace troupe::actor::detail {
namespace {

std::string mailbox_text(const trace::ActorRow& row) {
  return row.depth == 0   ? "with an empty mailbox"
         : row.depth == 1 ? "with 1 message in its mailbox"
                          : absl::StrCat("with ", row.depth, " messages in its mailbox");
}

std::string pause_text(const trace::ActorRow& row, bool was_paused, bool is_told) {
  if (row.state == trace::State::kHandling) {
    return absl::StrFormat("%s when the handler of %s ends, in which it has been for %.3f s", was_paused ? "is told already to pause" : "pauses",
                           row.detail, seconds(row.since_ns));
  }
  if (row.state == trace::State::kEnded) return "has ended";
  if (row.state != trace::State::kPaused && !is_told) return "is not paused any more";
  if (row.state != trace::State::kPaused) return "pauses once it is through with the message that it is taking";
  return was_paused ? absl::StrFormat("is paused already, for %.3f s, %s", seconds(row.since_ns), mailbox_text(row))
                    : absl::StrCat("is paused, ", mailbox_text(row));
}

std::string step_text(const trace::ActorRow& before) {
  if (before.state == trace::State::kHandling) {
    return absl::StrFormat("takes one message more when the handler of %s ends, in which it has been for %.3f s, and stays paused",
                           before.detail, seconds(before.since_ns));
  }
  if (before.depth == 0) return "takes the next message that comes, and stays paused";
  return absl::StrCat("takes one message, of ", before.depth, " in its mailbox, and stays paused");
}

// For how long one who pauses an actor waits for it to heed that; most handlers are far shorter.
constexpr std::chrono::milliseconds kHeedsWithin{20};
constexpr std::chrono::microseconds kLooksEvery{50};

void wait_until_heeded(const trace::Pause& pause) {
  const auto deadline = std::chrono::steady_clock::now() + kHeedsWithin;
  while (pause.seen().is_to_pause && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kLooksEvery);
}

}  // namespace

StatusOr<Controlled> SystemCore::control(Control what, const std::string& actor) {
  const auto found = by_name.find(actor);
  if (found == by_name.end()) {
    for (const auto& [name, cell] : by_name) {
      if (is_near(actor, name)) return absl::NotFoundError(absl::StrCat("there is no actor '", actor, "'; did you mean '", name, "'?"));
    }
    return absl::NotFoundError(absl::StrCat("there is no actor '", actor, "'"));
  }
  Cell& cell = *found->second;
  if (!started) return absl::FailedPreconditionError(absl::StrCat("'", actor, "' has not started yet"));
  if (cell.actor == supervisor) {
    return absl::FailedPreconditionError(absl::StrCat("'", actor, "' is never paused: the job's end goes through it"));
  }
  trace::Probe& probe = *cell.probe;
  const trace::ActorRow before = probe.row(probes.texts());
  const auto change = what == Control::kPause    ? probe.pause.pause(probe.ticks().now())
                      : what == Control::kResume ? probe.pause.go_on()
                                                 : probe.pause.step();
  if (change.wakes) wake(cell);
  if (change.had_ended) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", actor, "' ", cell.ended.load(std::memory_order_acquire) ? "has ended" : "is not paused any more: the job comes to its end"));
  }
  if (what == Control::kStep && !change.was_paused) {
    return absl::FailedPreconditionError(absl::StrCat("'", actor, "' is not paused: pause it, then let it take a step"));
  }
  if (what == Control::kStep && change.same) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", actor, "' has ", trace::Pause::kStepsMost, " steps to take already; more are told to it when it has taken some"));
  }
  if (what == Control::kPause && !options.deterministic) wait_until_heeded(probe.pause);
  const trace::Pause::Seen seen = probe.pause.seen();
  Controlled result{.text = {}, .row = probe.row(probes.texts())};
  result.text = what == Control::kPause    ? pause_text(result.row, change.was_paused, seen.paused || seen.is_to_pause || seen.steps > 0)
                : what == Control::kStep   ? step_text(before)
                : change.was_paused        ? absl::StrCat("goes on, ", mailbox_text(before))
                                           : "was not paused";
  return result;
}

void SystemCore::end_pauses() {
  for (const auto& cell : cells) {
    if (cell->probe->pause.end().wakes) wake(*cell);
  }
}

}  // namespace troupe::actor::detail
