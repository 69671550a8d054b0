// Inside of runtime/actor, the only header of the repository that includes CAF (0.17.6): how a message
// travels and what runs an actor. A move to another CAF is a change of this header, caf_host.cc and
// caf_world.cc.
//
// A message is an Element: CAF's mailbox element with our payload behind it, one allocation, never
// serialized. An actor is a Host: an event-based actor whose enqueue (sender's thread) counts, and whose
// consume looks our Elements up in the Actor's own table. A paused one parks: its turn ends with its mailbox
// unblocked, so that no sender schedules it; wake() does. Its turns are marked in its pause, before its mailbox can be
// found blocked. CAF's own messages go CAF's way. Included by
// caf_host.cc and caf_world.cc only.
//
// Thread sanitizer: Debian's libcaf is not instrumented, so its hand-over of messages is told to the
// sanitizer by hand (tsan.h); with `ignore_noninstrumented_modules=1` it then sees races of ours and none of
// CAF's.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <memory>
#include <vector>

#include "runtime/actor/system_core.h"

namespace troupe::actor::detail {

class Element final : public caf::mailbox_element {
 public:
  enum class Stage : std::uint8_t { kNew, kTimer, kInMailbox, kAfterEnd, kTaken };

  static Element* allocate(const MessageType& type);
  // Whether `element`, any element of any mailbox, is one of ours.
  static bool is_ours(const caf::mailbox_element& element) { return element.mid.integer_value() & kMark; }

  const MessageType& type() const { return type_; }
  void* payload() const { return payload_; }
  void make_urgent() { mid = caf::message_id{kMark}; }

  trace::Probe* probe = nullptr;  // of the receiver, once it is on its way
  std::uint32_t sender = 0;       // its probe's id, of the same System
  Stage stage = Stage::kNew;
  trace::Probe::Sent sent;        // on the probe's time, once it is in the mailbox

  caf::type_erased_tuple& content() override;
  const caf::type_erased_tuple& content() const override;
  caf::message move_content_to_message() override;
  caf::message copy_content_to_message() const override;
  void request_deletion(bool decremented_rc) const noexcept override;

 private:
  // The "already answered" bit without a request number: CAF never makes such an id.
  static constexpr std::uint64_t kMark = caf::message_id::answered_flag_mask;
  Element(const MessageType& type, void* payload);
  ~Element() override = default;

  const MessageType& type_;
  void* const payload_;
};

class Host final : public caf::event_based_actor {
 public:
  Host(caf::actor_config& config, Cell& cell);

  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override;
  // By the sender, before CAF has the message.
  void count_in(Element& element);
  // As CAF's, and heeds the actor's pause before every message.
  resume_result resume(caf::execution_unit* unit, std::size_t messages_most) override;
  // By any thread: of a parked actor, by the one that was told to.
  void wake();
  caf::invoke_message_result consume(caf::mailbox_element& element) override;
  bool cleanup(caf::error&& reason, caf::execution_unit* unit) override;
  const char* name() const override { return cell_.name().c_str(); }

  // In a handler only.
  void end(Status cause, std::vector<std::string> chain);
  void schedule(Element* element, std::chrono::nanoseconds delay);
  // Where the current handler runs; null outside handlers.
  caf::execution_unit* running_on() const { return running_on_; }

 private:
  caf::behavior make_behavior() override;
  // Calls `body`; an exception out of it ends the actor. `what` names the message.
  template <class Body>
  void guarded(std::string_view what, const Body& body);

  Cell& cell_;
  caf::execution_unit* running_on_ = nullptr;
  bool started_ = false;
  bool ending_ = false;
  bool buried_ = false;
};

}  // namespace troupe::actor::detail
