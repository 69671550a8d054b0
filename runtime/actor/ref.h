// The address of an actor. A value: copy it, send it, compare it. It may outlive the actor and its system; a
// message to an actor that has ended is a dead letter, counted by (type, reason), never lost silently.
//
// Threads: any. Errors: sending to an actor before System::start is a bug.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/message.h"

namespace troupe::actor {

class Actor;

// Urgent is for control messages that must not wait behind data. Two lanes, each in order; the urgent one
// goes first, but with threads never starves the other (a turn takes six of one, then three of the other).
enum class Lane { kNormal, kUrgent };

namespace detail {

class Cell;  // what stays of an actor as long as anybody knows it

struct Parcel {
  void* element = nullptr;  // the mailbox element, owned by the caller until posted
  void* payload = nullptr;  // where the message is to be constructed
};
Parcel allocate_parcel(const MessageType& type);
// `from` is the actor in whose handler this runs, or null.
void post_parcel(Cell& to, const Parcel& parcel, Lane lane, const Actor* from);

template <Message T>
void post(Cell& to, T message, Lane lane, const Actor* from) {
  const Parcel parcel = allocate_parcel(message_type<T>());
  new (parcel.payload) T(std::move(message));
  post_parcel(to, parcel, lane, from);
}

}  // namespace detail

class Ref {
 public:
  Ref() = default;
  explicit Ref(std::shared_ptr<detail::Cell> cell) : cell_(std::move(cell)) {}

  // From outside any actor: a stream's thread, main. Inside a handler use Actor::send.
  template <Message T>
  void send(T message, Lane lane = Lane::kNormal) const {
    detail::post(cell(), std::move(message), lane, nullptr);
  }
  const std::string& name() const;
  bool ended() const;
  explicit operator bool() const { return cell_ != nullptr; }
  friend bool operator==(const Ref&, const Ref&) = default;

  detail::Cell& cell() const;  // for the runtime; a bug on an empty Ref

 private:
  std::shared_ptr<detail::Cell> cell_;
};

}  // namespace troupe::actor
