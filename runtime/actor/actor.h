// The base of every actor: state that is touched in its handlers only, one message at a time.
//
// A derived class registers its handlers in its constructor with on(&Self::handler) and declares its ports as
// public members (edge.h). Handlers never block, sleep, lock or wait for a device (DESIGN law 1).
//
// Threads: constructed by the thread that builds the System; started() and all handlers in the actor's own
// context; nothing here is to be called from another thread, except that a Ref may be copied anywhere.
// Errors: fail(cause) ends the actor and tells the supervisor; an exception out of a handler is
// fail(kInternal); a message without handler is a dead letter and fails the actor as well (CASES A11). Two
// handlers for one type are a bug. Invariants: started() before any message
// (ActorTest.StartsBeforeItsFirstMessage); a monitor gives exactly one Down (ActorTest.OneDownForOneMonitor).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/ref.h"
#include "runtime/base/status.h"
#include "runtime/trace/probe.h"

namespace troupe::actor {

// A monitored actor ended. `cause` is ok if it stopped by itself. `chain` begins with the failure that caused
// all others.
struct Down {
  Ref actor;
  Status cause;
  std::vector<std::string> chain;
};

namespace detail {

class Host;
class RequestTracker;
class SystemCore;

// A member function of some actor that takes one message, with its type erased.
struct Method {
  using Invoke = void (*)(Actor&, const Method&, void* payload);
  Invoke invoke = nullptr;
  alignas(std::max_align_t) std::byte function[2 * sizeof(void*)] = {};

  template <class F>
  static Method of(F function, Invoke invoke) {
    static_assert(sizeof(F) <= sizeof(Method::function));
    Method method;
    method.invoke = invoke;
    std::memcpy(method.function, &function, sizeof(F));
    return method;
  }
  template <class F>
  F as() const {
    F result;
    std::memcpy(&result, function, sizeof(F));
    return result;
  }
};

struct Entry {
  Method method;
  const MessageType* type = nullptr;
  int slot = 0;  // of the probe's counts
};

}  // namespace detail

class Actor {
 public:
  Actor();
  virtual ~Actor();
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // First thing in the actor's own context.
  virtual void started() {}
  virtual void down(const Down&) {}
  // The system asks for an orderly end. Whoever has open work overrides it and calls stop() once that is
  // done.
  virtual void stop_requested() { stop(); }

  const std::string& name() const;
  Ref self() const;
  trace::Probe& probe();
  const trace::Probe& probe() const;

 protected:
  // `handler` takes T, T&& or const T&.
  template <class Self, class Argument>
  void on(void (Self::*handler)(Argument)) {
    using T = std::remove_cvref_t<Argument>;
    static_assert(Message<T>, "a message is a struct that moves without throwing");
    using Handler = void (Self::*)(Argument);
    add_entry(message_type<T>(),
              detail::Method::of(handler, [](Actor& actor, const detail::Method& method, void* payload) {
                (static_cast<Self&>(actor).*method.as<Handler>())(std::move(*static_cast<T*>(payload)));
              }));
  }

  template <Message T>
  void send(const Ref& to, T message, Lane lane = Lane::kNormal) {
    detail::post(to.cell(), std::move(message), lane, this);
  }
  // To this actor itself, `delay` later. In the deterministic world the delay is virtual.
  template <Message T>
  void send_after(std::chrono::nanoseconds delay, T message) {
    const detail::Parcel parcel = detail::allocate_parcel(message_type<T>());
    new (parcel.payload) T(std::move(message));
    post_later(parcel, delay);
  }
  // down() is called once when `actor` ends, at once if it has ended already.
  void monitor(const Ref& actor);

  // Both take effect after the current handler; the rest of the mailbox becomes dead letters.
  void stop();
  // `because` is the Down that made this actor fail: its chain is kept.
  void fail(Status cause, const Down* because = nullptr);
  // The whole job has reached its end: System::wait returns `result` once all actors have stopped.
  void finish_job(Status result = ok());
  // That is decided, and others are to hear of it first: as System::end_pauses.
  void end_pauses();

  // What the inspector shows. `detail` and `from` from name_for(), made once, in started(); for an edge, its
  // port's trace_name(). Who waits for others says for whom: SCHEMA.md, runtime/trace/waits.h. Who waits to be
  // asked for something is idle.
  void set_state(trace::State state, trace::Name detail = {}, std::int64_t number = -1, trace::Name from = {});
  trace::Name name_for(const std::string& text);
  // Nanoseconds of the system's clock: steady, or virtual in the deterministic world.
  std::int64_t now_ns() const;

 private:
  friend class detail::Host;
  friend class detail::Cell;
  friend class detail::RequestTracker;
  friend class OutPort;
  friend class InPort;
  friend class System;
  friend class detail::SystemCore;
  friend void detail::post_parcel(detail::Cell&, const detail::Parcel&, Lane, const Actor*);
  void add_entry(const MessageType& type, detail::Method method);
  bool has_entry(const MessageType& type) const { return entry_of(type.index) != nullptr; }
  const detail::Entry* entry_of(std::uint32_t type) const {
    const std::uint16_t at = type < slot_of_type_.size() ? slot_of_type_[type] : kNoEntry;
    return at == kNoEntry ? nullptr : &entries_[at];
  }
  void post_later(const detail::Parcel& parcel, std::chrono::nanoseconds delay);

  static constexpr std::uint16_t kNoEntry = 0xffff;
  std::shared_ptr<detail::Cell> cell_;
  std::vector<detail::Entry> entries_;
  std::vector<std::uint16_t> slot_of_type_;  // message type index -> entry
};

}  // namespace troupe::actor
