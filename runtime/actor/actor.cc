#include "runtime/actor/actor.h"

#include "runtime/actor/request.h"
#include "runtime/actor/supervisor.h"

namespace troupe::actor {

// --- Ref ---

const std::string& Ref::name() const { return cell().name(); }
bool Ref::ended() const { return cell().ended.load(std::memory_order_acquire); }
detail::Cell& Ref::cell() const {
  TROUPE_CHECK(cell_ != nullptr) << "an empty Ref";
  return *cell_;
}

// --- what every actor understands ---

namespace detail {

Cell::Cell(Actor& its_actor) : actor(&its_actor) {}
Cell::~Cell() = default;

Down down_of(const Ref& actor) {
  const Cell& cell = actor.cell();
  if (!cell.ended.load(std::memory_order_acquire)) {
    return Down{actor, Status(absl::StatusCode::kUnavailable, "its system is gone"), {}};
  }
  return Down{actor, cell.cause, cell.chain};
}

DownToken::~DownToken() {
  if (watcher_) watcher_.send(down_of(target_), Lane::kUrgent);
}

}  // namespace detail

Actor::Actor() : cell_(std::make_shared<detail::Cell>(*this)) {
  const auto builtin = [this]<class T>(void (*handle)(Actor&, T&)) {
    add_entry(message_type<T>(),
              detail::Method::of(handle, [](Actor& actor, const detail::Method& method, void* payload) {
                method.as<void (*)(Actor&, T&)>()(actor, *static_cast<T*>(payload));
              }));
  };
  builtin(+[](Actor&, detail::StartRequested&) {});
  builtin(+[](Actor& actor, detail::StopRequested&) { actor.stop_requested(); });
  builtin(+[](Actor& actor, detail::StopNow&) { actor.stop(); });
  builtin(+[](Actor& actor, detail::MonitorRequested& request) {
    actor.cell_->watchers.push_back(std::move(request.token));
  });
  builtin(+[](Actor& actor, Down& down) { actor.down(down); });
  builtin(+[](Actor&, detail::CreditReturned& returned) { OutPort::collect(*returned.edge); });
}

Actor::~Actor() = default;

const std::string& Actor::name() const { return cell_->name(); }
Ref Actor::self() const { return Ref(cell_); }
trace::Probe& Actor::probe() { return *cell_->probe; }
const trace::Probe& Actor::probe() const { return *cell_->probe; }

void Actor::add_entry(const MessageType& type, detail::Method method) {
  TROUPE_CHECK(entry_of(type.index) == nullptr) << "a second handler for message '" << type.name << "'";
  TROUPE_CHECK(cell_->host == nullptr)
      << "actor '" << name() << "': handlers are registered in the constructor";
  if (type.index >= slot_of_type_.size()) slot_of_type_.resize(type.index + 1, kNoEntry);
  slot_of_type_[type.index] = static_cast<std::uint16_t>(entries_.size());
  entries_.push_back({method, &type, probe().add_type(type.index)});
}

namespace {

detail::Cell& in_its_handler(detail::Cell& cell, const char* what) {
  TROUPE_CHECK(detail::in_handler(cell)) << what << " of actor '" << cell.name() << "' outside its handlers";
  return cell;
}

}  // namespace

void Actor::stop() { detail::end_actor(in_its_handler(*cell_, "stop()"), ok(), {}); }

void Actor::fail(Status cause, const Down* because) {
  TROUPE_CHECK(!cause.ok()) << "actor '" << name() << "' fails without a cause";
  detail::end_actor(in_its_handler(*cell_, "fail()"), std::move(cause),
                    because != nullptr ? because->chain : std::vector<std::string>());
}

void Actor::monitor(const Ref& actor) {
  send(actor, detail::MonitorRequested{detail::DownToken(self(), actor)}, Lane::kUrgent);
}

void Actor::finish_job(Status result) {
  send(static_cast<Actor*>(cell_->core->supervisor)->self(), JobFinished{std::move(result)});
}

void Actor::end_pauses() { cell_->core->end_pauses(); }

void Actor::post_later(const detail::Parcel& parcel, std::chrono::nanoseconds delay) {
  detail::post_parcel_later(in_its_handler(*cell_, "send_after()"), parcel, delay);
}

void Actor::set_state(trace::State state, trace::Name detail, std::int64_t number, trace::Name from) {
  probe().set_state(state, detail, number, from);
}

trace::Name Actor::name_for(const std::string& text) {
  TROUPE_CHECK(cell_->core != nullptr)
      << "name_for(\"" << text << "\") before the actor was added: use started()";
  return cell_->core->probes.intern(text);
}

std::int64_t Actor::now_ns() const { return cell_->core->probes.ticks().now_ns(); }

}  // namespace troupe::actor
