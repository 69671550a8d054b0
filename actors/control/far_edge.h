// Edges between actors of different processes. actor::connect joins an actor here with the end that stands for the one elsewhere, so the
// call is the same as for two actors of one process:
//
//   in rank 0:  connect(stage.activation_out, far.in<Activation>(Rank(1), "stage-1.activation"), {.credits = 3});
//   in rank 1:  connect(far.out<Activation>(Rank(0), "stage-1.activation", buffers), stage.activation_in, {.credits = 3});
//
// and for messages without tensors, which need no buffers:
//
//   in rank 1:  connect(far.out<Number>(Rank(0), "numbers", {.credits = 3}), squarer.numbers, {.credits = 3});
//
// A credit is one slot with a buffer on either side. The message's fields go as the frame's header, its tensor as the bulk: from the
// sender's buffer, once its event is reached, into the buffer of the same slot at the receiver, as soon as the frame has come; nothing is
// copied on the way. The receiver's Delivery carries an event that is reached. The slot goes back when the receiver has released its
// credit, that credit's event is reached and the sender's transport has let go of its buffer. So at most `credits` messages are under way.
//
// Threads: in and out before the System starts; arrive and peer_down on the transport's progress thread. Events are waited for by the
//          stream, never by an actor.
// Owns: nothing; System, transport and stream outlive it, the buffers the transport's stop.
// Errors: a peer that is down, a bulk that cannot be brought, a frame that breaks the protocol fail the end's actor, which names edge,
//         rank and cause; from there on it is as with any actor that fails. A frame for an edge that is not here is counted and said once.
// Limits: T is trivially copyable or has `fields` (fields.h); its fields fit a frame's header. One with a tensor has `tensor_of` and an
//        event `ready`; its tensors are as large as the receiver's buffers.
// Invariants: in order, nothing lost or doubled, never more than `credits` under way, no buffer overwritten before its release
//        (FarEdge.KeepsItsPromisesWhateverIsSlow); FarEdge.FailsBothEndsWhenAPeerIsLost.
#pragma once

#include <string>
#include <vector>

#include "actors/control/far_ends.h"

namespace troupe::actors {

class FarEdges {
 public:
  // `stream` waits for the events of what leaves; it needs no compute threads.
  FarEdges(actor::System& system, comm::Transport& transport, device::Stream& stream) : system_(system), wire_(transport, stream) {}

  // What stands for a port of rank `to`. `name` is the edge's, the same on both sides; one in a process.
  template <class T>
  actor::In<T>& in(Rank to, const std::string& name) {
    return system_.add<FarSender<T>>(absl::StrCat(name, "@", to.value), wire_, to, name).in;
  }
  // What stands for a port of rank `from`; a buffer per credit.
  template <CarriesTensor T>
  actor::Out<T>& out(Rank from, const std::string& name, std::vector<device::Tensor> buffers) {
    const std::size_t credits = buffers.size();
    return system_.add<FarReceiver<T>>(absl::StrCat(name, "@", from.value), wire_, from, name, credits, std::move(buffers)).out;
  }
  // The same for messages without tensors; the credits are those of both connects.
  template <class T>
    requires(!CarriesTensor<T>)
  actor::Out<T>& out(Rank from, const std::string& name, actor::EdgeOptions options) {
    const auto credits = static_cast<std::size_t>(options.credits);
    return system_.add<FarReceiver<T>>(absl::StrCat(name, "@", from.value), wire_, from, name, credits, std::vector<device::Tensor>()).out;
  }

  // All edges with `peer` fail.
  void peer_down(Rank peer, const Status& cause) { wire_.peer_down(peer, cause); }
  std::int64_t refused() const { return wire_.refused(); }

 private:
  actor::System& system_;
  FarWire wire_;
};

}  // namespace troupe::actors
