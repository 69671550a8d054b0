// The end of a transport: what was sent still goes, the peers hear why, UCX lets go of everything.
#include <algorithm>
#include <utility>

#include "comm/ucx/ucx_core.h"
#include "runtime/base/first_cause.h"

namespace troupe::comm {
namespace {

constexpr std::int64_t kStopNs = 1'000'000'000;  // how long stop() waits for peers to hear of it, for fetches to end, and for UCX to let go

}  // namespace

void UcxCore::shut_down() {
  if (std::exchange(shut_, true)) return;
  inbox_->open();
  now_ns_ = clock_.now_ns();
  run_commands();  // what was sent before the stop still goes
  stopping_ = true;
  say_bye();
  for (const std::int64_t until_ns = now_ns_ + kStopNs; bye_awaited() && now_ns_ < until_ns;) work();
  // UCX 1.13 aborts the process that closes an endpoint by force while it copies out of the peer's memory, and then destroys the worker.
  for (const std::int64_t until_ns = now_ns_ + kStopNs; fetching() && now_ns_ < until_ns;) work();
  for (Peer& each : peers_) {
    if (each.connected()) fail(each, absl::UnavailableError("the transport was stopped"));
  }
  for (const std::int64_t until_ns = now_ns_ + kStopNs; !closing_.empty() && now_ns_ < until_ns;) work();
  let_go();
  const auto run_all = [this] {
    while (!ready_.empty()) {  // completions may send: that completes at once
      run_commands();
      run_ready();
    }
  };
  run_all();
  abandon_commands(inbox_->close());
  while (progress()) {
  }
  for (auto& each : workers_) each.reset();
  for (Peer& each : peers_) complete_all(each);  // UCX is gone, and with it whatever it still had
  run_all();
}

void UcxCore::say_bye() {
  Note bye{.kind = NoteKind::kBye};
  if (!why_.ok()) {
    const auto first = first_cause(why_).value_or(FirstCause{options_.rank, std::string(why_.message())});
    bye.first = first.rank;
    bye.reason = first.text.empty() ? std::string("it failed") : first.text;
  }
  for (Peer& each : peers_) {
    if (each.down() || !(each.connected() || each.heard)) continue;
    for (const Lane lane : {Lane::kControl, Lane::kBulk}) note(each, lane, bye);
  }
}

bool UcxCore::bye_awaited() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& each) { return !each.down() && each.connected() && !each.bye_seen; });
}

bool UcxCore::fetching() const {
  return std::ranges::any_of(peers_, [](const Peer& each) {
    return !each.down() && std::ranges::any_of(each.fetches.items(), [](const auto& open) { return open->pulls_open > 0; });
  });
}

// Gives back to UCX, and to senders within this process, what nobody will fetch any more.
void UcxCore::let_go() {
  while (!held_.empty()) {
    const std::shared_ptr<HeldBulk> held = held_.back();
    if (held->own != nullptr)
      ready_.emplace_back(
          Finished{std::move(held->own->sent), absl::UnavailableError("the transport was stopped")});
    release(*held);
  }
}

void UcxCore::abandon_commands(std::vector<Inbox::Command> commands) {
  for (auto& command : commands) {
    auto* open = std::get_if<std::unique_ptr<OpenSend>>(&command);
    if (open != nullptr && (*open)->sent) (*open)->sent(absl::UnavailableError("the transport was stopped"));
  }
}

}  // namespace troupe::comm
