// A question to another actor and its one answer: a reply, or an error. Never silence (CASES A10).
//
//   struct Question { ... };  struct Reply { ... };
//   asker:     on(&Asker::replied);                          void replied(Answered<Reply> answer);
//              const RequestId id = ask<Reply>(*this, target, Question{...});   (a free function of this
//              header)
//   answerer:  on(&Answerer::asked);                         void asked(Request<Question, Reply> request);
//              request.answer.reply(Reply{...});             now or later; the Answer may be kept or moved
//
// Errors: kUnavailable when the target has ended before it answered (or before it was asked), with its cause;
// kAborted when the Answer was dropped without a reply. Invariant: exactly one Answered for each ask
// (RequestTest.GetsExactlyOneAnswer). There is no time-out: use send_after.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/actor/actor.h"

namespace troupe::actor {

using RequestId = std::uint64_t;

template <class R>
struct Answered {
  RequestId id = 0;
  StatusOr<R> result;
};

namespace detail {

// Who asked whom; answered once.
class RequestTracker {
 public:
  using PostError = void (*)(const RequestTracker&, Status);
  RequestTracker(Ref asker, Ref target, PostError post_error);

  RequestId id() const { return id_; }
  const Ref& asker() const { return asker_; }
  bool answered() const { return answered_.load(std::memory_order_acquire); }
  // True for the one who may answer.
  bool claim() { return !answered_.exchange(true, std::memory_order_acq_rel); }
  void fail_if_open(const std::string& why);
  // The target's host fails it when the target ends. In the target's context.
  static void track(Actor& target, const std::shared_ptr<RequestTracker>& tracker);

 private:
  const Ref asker_, target_;
  const PostError post_error_;
  const RequestId id_;
  std::atomic<bool> answered_{false};
};

}  // namespace detail

// The duty to answer. Move-only; dropping it open answers with an error.
template <class R>
class Answer {
 public:
  explicit Answer(std::shared_ptr<detail::RequestTracker> tracker) : tracker_(std::move(tracker)) {}
  Answer(Answer&&) noexcept = default;
  Answer& operator=(Answer&& other) noexcept {
    drop();
    tracker_ = std::move(other.tracker_);
    return *this;
  }
  ~Answer() { drop(); }

  void reply(R value) { give(std::move(value)); }
  void fail(Status status) { give(std::move(status)); }
  RequestId id() const { return tracker_->id(); }
  void arrived_at(Actor& target) const {
    detail::RequestTracker::track(target, tracker_);
  }  // for the runtime

 private:
  void give(StatusOr<R> result) {
    if (auto tracker = std::move(tracker_); tracker && tracker->claim()) {
      tracker->asker().send(Answered<R>{tracker->id(), std::move(result)});
    }
  }
  void drop() {
    if (auto tracker = std::move(tracker_))
      tracker->fail_if_open("the request was dropped without an answer");
  }
  std::shared_ptr<detail::RequestTracker> tracker_;
};

template <class Q, class R>
struct Request {
  Q question;
  Answer<R> answer;
};
template <class Q, class R>
struct ShownAs<Request<Q, R>> {
  static constexpr std::string_view name() { return message_name<Q>(); }
};

template <class Q, class R>
struct OnArrival<Request<Q, R>> {
  static void kHook(Actor& receiver, void* payload) {
    static_cast<Request<Q, R>*>(payload)->answer.arrived_at(receiver);
  }
};

// `asker` gets one Answered<R> with the id that is returned. In a handler of `asker`.
template <class R, Message Q>
RequestId ask(Actor& asker, const Ref& target, Q question) {
  auto tracker = std::make_shared<detail::RequestTracker>(
      asker.self(), target, [](const detail::RequestTracker& request, Status status) {
        request.asker().send(Answered<R>{request.id(), std::move(status)});
      });
  const RequestId id = tracker->id();
  detail::post(target.cell(), Request<Q, R>{std::move(question), Answer<R>(std::move(tracker))},
               Lane::kNormal, &asker);
  return id;
}

}  // namespace troupe::actor
