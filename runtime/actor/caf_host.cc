#include "runtime/actor/caf_host.h"

#include <caf/scheduler/abstract_coordinator.hpp>
#include <cstdlib>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "runtime/actor/request.h"
#include "runtime/actor/supervisor.h"
#include "runtime/actor/tsan.h"

namespace troupe::actor::detail {
namespace {

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t align) {
  return (bytes + align - 1) / align * align;
}

[[noreturn]] void serialized() {
  TROUPE_CHECK(false) << "CAF asked for the content of a message: messages are never serialized";
  std::abort();
}

}  // namespace

// --- Element ---

Element::Element(const MessageType& type, void* payload) : type_(type), payload_(payload) {
  mid = caf::message_id{kMark | caf::message_id::default_async_value};
}

Element* Element::allocate(const MessageType& type) {
  const std::size_t align = std::max(type.align, alignof(Element));
  const std::size_t offset = rounded_up(sizeof(Element), align);
  auto* memory = static_cast<std::byte*>(align > __STDCPP_DEFAULT_NEW_ALIGNMENT__
                                             ? ::operator new (offset + type.size, std::align_val_t{align})
                                             : ::operator new(offset + type.size));
  return new (memory) Element(type, memory + offset);
}

void Element::request_deletion(bool) const noexcept {
  take_over(this);  // dropped by CAF on whatever thread
  if (probe != nullptr && stage != Stage::kTaken) {
    if (stage == Stage::kTimer) probe->sent(type_.index);
    probe->dead_letter(type_.index, stage == Stage::kAfterEnd ? trace::DeadReason::kAfterEnd
                                    : stage == Stage::kTimer  ? trace::DeadReason::kTimerDropped
                                                              : trace::DeadReason::kLeftInMailbox);
  }
  const std::size_t align = std::max(type_.align, alignof(Element));
  type_.destroy(payload_);
  auto* self = const_cast<Element*>(this);
  self->~Element();
  if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    ::operator delete (static_cast<void*>(self), std::align_val_t{align});
  } else {
    ::operator delete(static_cast<void*>(self));
  }
}

caf::type_erased_tuple& Element::content() { serialized(); }
const caf::type_erased_tuple& Element::content() const { serialized(); }
caf::message Element::move_content_to_message() { serialized(); }
caf::message Element::copy_content_to_message() const { serialized(); }

// --- sending ---

Parcel allocate_parcel(const MessageType& type) {
  Element* element = Element::allocate(type);
  return Parcel{element, element->payload()};
}

void post_parcel(Cell& to, const Parcel& parcel, Lane lane, const Actor* from) {
  auto* element = static_cast<Element*>(parcel.element);
  if (lane == Lane::kUrgent) element->make_urgent();
  TROUPE_CHECK(to.host != nullptr || to.ended.load(std::memory_order_acquire))
      << "message '" << element->type().name << "' to actor '" << to.name() << "' before System::start";
  caf::mailbox_element_ptr owned(element);
  if (to.host == nullptr) {  // its System never started it and is gone
    element->probe = to.probe.get();
    element->stage = Element::Stage::kAfterEnd;
    to.probe->sent(element->type().index);
    return;
  }
  // The sender's thread takes the receiver's turn into its own queue, unless the receiver belongs to another
  // System.
  const bool is_neighbour = from != nullptr && from->cell_->core == to.core && from->cell_->host != nullptr;
  if (is_neighbour) {
    const trace::Probe& its = *from->cell_->probe;
    element->sender = its.id();
    element->sent = its.now();
  }
  to.host->count_in(*element);
  to.host->caf::event_based_actor::enqueue(std::move(owned), is_neighbour ? from->cell_->host->running_on() : nullptr);
}

// --- Host ---

Host::Host(caf::actor_config& config, Cell& cell) : caf::event_based_actor(config), cell_(cell) {
  set_default_handler(caf::drop);
  set_error_handler(
      [this](caf::error&) { end(Status(absl::StatusCode::kInternal, "an error message of CAF"), {}); });
  set_exit_handler([this](caf::exit_msg&) { end(ok(), {}); });
}

caf::behavior Host::make_behavior() {
  // CAF wants a behavior of whoever lives; ours is the Actor's table.
  return {[](caf::ok_atom) {}};
}

void Host::count_in(Element& element) {
  element.probe = cell_.probe.get();
  element.stage = cell_.ended.load(std::memory_order_relaxed) ? Element::Stage::kAfterEnd : Element::Stage::kInMailbox;
  element.probe->sent(element.type().index, element.sent);
  hand_over(&element);
}

void Host::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) {
  take_over(element.get());  // on the timer's thread
  if (Element::is_ours(*element)) count_in(static_cast<Element&>(*element));
  caf::event_based_actor::enqueue(std::move(element), unit);
}

namespace {

// CAF's visitor of a mailbox, which stops where the actor is held back.
struct Turn {
  caf::scheduled_actor::mailbox_visitor visit;
  const trace::Pause& pause;

  template <class... Where>
  caf::intrusive::task_result operator()(Where&&... where) {
    const auto result = visit(std::forward<Where>(where)...);
    return result == caf::intrusive::task_result::resume && pause.holds_back() ? caf::intrusive::task_result::stop_all : result;
  }
};

constexpr std::size_t kQuantum = 3;  // as CAF's own loop: of the urgent messages it takes twice as many

}  // namespace

caf::resumable::resume_result Host::resume(caf::execution_unit* unit, std::size_t messages_most) {
  take_over(this);
  if (!activate(unit)) return resume_result::done;
  trace::Probe& probe = *cell_.probe;
  trace::Pause& pause = probe.pause;
  pause.begin_turn();
  probe.begin_turn();
  hand_over(this);
  std::size_t handled = 0;
  Turn turn{{this, handled, messages_most}, pause};
  while (handled < messages_most) {
    while (pause.holds_back()) {
      probe.doubt_the_time();
      hand_over(this);
      if (pause.park(handled > 0 ? probe.ticks().now() : 0)) return resume_result::awaiting_message;
    }
    if (!mailbox().new_round(kQuantum, turn).consumed_items) {
      pause.end_turn();  // once its mailbox is blocked, another thread may run it
      if (mailbox().try_block()) return resume_result::awaiting_message;
      pause.begin_turn();
    }
    if (finalize()) return resume_result::done;
  }
  pause.end_turn();
  return mailbox().try_block() ? resume_result::awaiting_message : resume_result::resume_later;
}

void Host::wake() {
  intrusive_ptr_add_ref(ctrl());
  home_system().scheduler().enqueue(this);
}

template <class Body>
void Host::guarded(std::string_view what, const Body& body) {
  try {
    body();
  } catch (const std::exception& exception) {
    end(Status(absl::StatusCode::kInternal,
               absl::StrCat("exception in the handler of ", std::string(what), ": ", exception.what())),
        {});
  } catch (...) {
    end(Status(absl::StatusCode::kInternal,
               absl::StrCat("exception of unknown type in the handler of ", std::string(what))),
        {});
  }
}

caf::invoke_message_result Host::consume(caf::mailbox_element& element) {
  take_over(&element);
  take_over(this);
  if (!Element::is_ours(element)) return caf::event_based_actor::consume(element);
  auto& ours = static_cast<Element&>(element);
  current_mailbox_element(&element);
  Actor& actor = *cell_.actor;
  trace::Probe& probe = *cell_.probe;
  running_on_ = context();
  if (!started_) {
    started_ = true;
    guarded("started()", [&] { actor.started(); });
    probe.doubt_the_time();
  }
  if (!ending_) {  // else the message is left in the mailbox, as the others behind it
    const MessageType& type = ours.type();
    ours.stage = Element::Stage::kTaken;
    probe.pause.take();
    if (const Entry* entry = actor.entry_of(type.index)) {
      probe.begin_handling(entry->slot, ours.sent);
      if (type.arrive != nullptr) type.arrive(actor, ours.payload());
      guarded(type.name, [&] { entry->method.invoke(actor, entry->method, ours.payload()); });
      probe.end_handling(ours.sent, ours.sender);
    } else {
      probe.end_without_handler(type.index);
      probe.doubt_the_time();
      end(Status(absl::StatusCode::kInternal,
                 absl::StrCat("got message '", std::string(type.name), "' and has no handler for it")),
          {});
    }
  }
  running_on_ = nullptr;
  current_mailbox_element(nullptr);
  hand_over(this);
  return caf::invoke_message_result::consumed;
}

void Host::end(Status cause, std::vector<std::string> chain) {
  if (ending_) return;
  ending_ = true;
  cell_.cause = std::move(cause);
  cell_.chain = std::move(chain);
  if (!cell_.cause.ok()) {
    cell_.chain.push_back(absl::StrCat(cell_.name(), ": ", std::string(cell_.cause.message())));
  }
  quit();
}

bool Host::cleanup(caf::error&& reason, caf::execution_unit* unit) {
  if (buried_) return caf::event_based_actor::cleanup(std::move(reason), unit);
  buried_ = true;
  if (!ending_) cell_.cause = Status(absl::StatusCode::kInternal, "ended by CAF");
  cell_.ended.store(true, std::memory_order_release);
  cell_.probe->ended();
  cell_.probe->pause.end();
  const bool result =
      caf::event_based_actor::cleanup(std::move(reason), unit);  // closes the mailbox, drops what is in it
  cell_.probe->doubt_the_time();
  SystemCore& core = *cell_.core;
  core.probes.bury(*cell_.probe, cell_.cause.ToString(absl::StatusToStringMode::kWithNoExtraData), cell_.chain);
  if (cell_.actor == core.supervisor) {
    hand_over(this);
    std::lock_guard lock(core.outcome.mutex);
    core.outcome.supervisor_alive = false;
    core.outcome.changed.notify_all();
    return result;
  }
  // The supervisor first: the cause must come before its consequences.
  static_cast<Actor*>(core.supervisor)->self().send(ActorEnded{cell_.actor->self()}, Lane::kNormal);
  cell_.watchers.clear();
  for (auto& request : cell_.open_requests) request->fail_if_open("");
  cell_.open_requests.clear();
  return result;
}

void Host::schedule(Element* element, std::chrono::nanoseconds delay) {
  element->probe = cell_.probe.get();
  element->stage = Element::Stage::kTimer;
  hand_over(element);
  auto& its_clock = system().clock();
  its_clock.schedule_message(its_clock.now() + delay, caf::strong_actor_ptr(ctrl()),
                             caf::mailbox_element_ptr(element));
}

// --- for the Actor ---

void wake(Cell& cell) { cell.host->wake(); }

bool in_handler(const Cell& cell) { return cell.host != nullptr && cell.host->running_on() != nullptr; }

void end_actor(Cell& cell, Status cause, std::vector<std::string> chain) {
  cell.host->end(std::move(cause), std::move(chain));
}

void post_parcel_later(Cell& cell, const Parcel& parcel, std::chrono::nanoseconds delay) {
  cell.host->schedule(static_cast<Element*>(parcel.element), delay);
}

}  // namespace troupe::actor::detail
