#include "runtime/actor/system.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/actor/supervisor.h"
#include "runtime/base/first_cause.h"

namespace troupe::actor {
namespace detail {

SystemCore::SystemCore(System::Options the_options)
    : options(the_options), probes(&message_type_name, the_options.clock) {
  auto owned = std::make_unique<Supervisor>(*this);
  supervisor = owned.get();
  adopt("supervisor", std::move(owned));
}

SystemCore::~SystemCore() {
  close();
  caf.reset();
  while (!actors.empty()) actors.pop_back();
  for (auto& cell : cells) {
    cell->ended.store(true, std::memory_order_release);  // also what never started
    cell->actor = nullptr;
    cell->core = nullptr;
    if (options.clock != nullptr) cell->probe->set_ticks(trace::Ticks());  // a Ref may outlive the clock too
  }
}

void SystemCore::adopt(std::string name, std::unique_ptr<Actor> actor) {
  TROUPE_CHECK(!started) << "actor '" << name << "' added after System::start";
  const auto cell = actor->cell_;
  TROUPE_CHECK(by_name.emplace(name, cell.get()).second) << "two actors named '" << name << "'";
  cell->probe->rename(std::move(name));
  cell->probe->set_ticks(probes.ticks());
  cell->core = this;
  probes.add(cell->probe);
  cells.push_back(cell);
  actors.push_back(std::move(actor));
}

void SystemCore::start() {
  TROUPE_CHECK(!started) << "System::start twice";
  started = true;
  caf = std::make_unique<CafWorld>(options);
  outcome.alive = static_cast<int>(cells.size()) - 1;
  outcome.supervisor_alive = true;
  for (auto& cell : cells) caf->spawn(*cell);
  for (auto& cell : cells) Ref(cell).send(StartRequested{});
}

void SystemCore::ask_all_to_stop(bool now) {
  end_pauses();
  for (auto& cell : cells) {
    if (cell->actor == supervisor || cell->ended.load(std::memory_order_acquire)) continue;
    if (now) {
      Ref(cell).send(StopNow{}, Lane::kUrgent);
    } else {
      Ref(cell).send(StopRequested{});
    }
  }
}

bool SystemCore::wait_until_all_ended(std::chrono::nanoseconds deadline) {
  if (options.deterministic) {
    while (outcome.alive > 0 && caf->runnable() > 0) caf->run(0);
    return outcome.alive == 0;
  }
  std::unique_lock lock(outcome.mutex);
  return outcome.changed.wait_for(lock, deadline, [&] { return outcome.alive == 0; });
}

std::string SystemCore::who_is_alive() const {
  std::string text;
  for (const auto& cell : cells) {
    if (cell->actor == supervisor || cell->ended.load(std::memory_order_acquire)) continue;
    const trace::ActorRow row = cell->probe->row(probes.texts());
    absl::StrAppend(&text, text.empty() ? "" : ", ", "'", row.name, "' (", trace::name(row.state),
                    row.detail.empty() ? "" : " ", row.detail,
                    absl::StrFormat(" for %.3f s, mailbox %d)", seconds(row.since_ns), row.depth));
  }
  return text;
}

void SystemCore::close() {
  if (!started) return;
  ask_all_to_stop(true);
  TROUPE_CHECK(wait_until_all_ended(options.stop_deadline))
      << "the System ends but these actors do not: " << who_is_alive() << "; a handler must not block";
  static_cast<Actor*>(supervisor)->self().send(StopNow{}, Lane::kUrgent);
  if (options.deterministic) {
    caf->drop_timers();
    while (caf->runnable() > 0) caf->run(0);
    TROUPE_CHECK(!outcome.supervisor_alive);
  } else {
    std::unique_lock lock(outcome.mutex);
    outcome.changed.wait(lock, [&] { return !outcome.supervisor_alive; });
  }
}

}  // namespace detail

System::System(Options options) : core_(std::make_unique<detail::SystemCore>(options)) {}
System::~System() = default;

void System::adopt(std::string name, std::unique_ptr<Actor> actor) {
  core_->adopt(std::move(name), std::move(actor));
}
void System::start() { core_->start(); }
StatusOr<Controlled> System::control(Control what, const std::string& actor) { return core_->control(what, actor); }
void System::end_pauses() { core_->end_pauses(); }

Status System::wait() {
  TROUPE_CHECK(core_->started && !core_->options.deterministic)
      << "wait() is for a started System with threads";
  auto& outcome = core_->outcome;
  {
    std::unique_lock lock(outcome.mutex);
    outcome.changed.wait(
        lock, [&] { return outcome.alive == 0 || (outcome.failed && core_->options.stop_on_failure); });
  }
  if (core_->wait_until_all_ended(core_->options.stop_deadline)) return this->outcome();
  const Status failure = this->outcome();
  return reworded(failure, absl::StrCat(std::string(failure.message()), "; still running: ", core_->who_is_alive()));
}

Status System::shutdown(std::chrono::nanoseconds deadline) {
  if (!core_->started) return ok();
  core_->ask_all_to_stop(false);
  if (core_->wait_until_all_ended(deadline)) return ok();
  return Status(absl::StatusCode::kDeadlineExceeded,
                absl::StrFormat("shutdown: after %.3f s these actors still run: %s",
                                seconds(deadline.count()), core_->who_is_alive()));
}

Status System::outcome() const {
  std::lock_guard lock(core_->outcome.mutex);
  return core_->outcome.result;
}

std::int64_t System::mailbox_bound(const Ref& actor) const {
  const auto& cell = actor.cell();
  return cell.inbound_credits + cell.outbound_edges;
}

Ref System::find(const std::string& name) const {
  const auto at = core_->by_name.find(name);
  return at == core_->by_name.end() ? Ref() : at->second->actor->self();
}

trace::ProbeRegistry& System::probes() { return core_->probes; }

}  // namespace troupe::actor
