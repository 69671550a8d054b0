// Edges between actors of different processes. actor::connect joins an actor here with the end that stands for the one elsewhere, so the
// call is the same as for two actors of one process:
//
//   in rank 0:  connect(stage.activation_out, far.in<Activation>(Rank(1), "stage-1.activation"), {.credits = 3});
//   in rank 1:  connect(far.out<Activation>(Rank(0), "stage-1.activation", buffers), stage.activation_in, {.credits = 3});
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
// Limits: T has `fields` and `tensor_of` (fields.h) and an event `ready`; its tensors are as large as the receiver's buffers.
// Invariants: in order, nothing lost or doubled, never more than `credits` under way, no buffer overwritten before its release
//        (FarEdge.KeepsItsPromisesWhateverIsSlow); FarEdge.FailsBothEndsWhenAPeerIsLost.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actors/control/fields.h"
#include "comm/transport.h"
#include "runtime/actor/system.h"
#include "runtime/base/first_cause.h"
#include "runtime/device/stream.h"

namespace troupe::actors {

// The end is over: its peer is down, or has broken the protocol.
struct FarEdgeFailed {
  Status cause;
};

// What the progress thread knows of one end.
class FarEnd {
 public:
  FarEnd(Rank peer, std::string name) : peer_(peer), name_(std::move(name)) {}
  virtual ~FarEnd() = default;
  // A frame of this edge from its peer: `rest` is what follows the edge's number. Not ok: the frame breaks the protocol.
  virtual Status arrive(comm::Arrival arrival, FieldReader rest) = 0;
  virtual const actor::Ref& actor() const = 0;

  Rank peer() const { return peer_; }
  const std::string& edge_name() const { return name_; }
  void fail_with(const Status& cause) const { actor().send(FarEdgeFailed{cause}); }

 protected:
  Status told(const Status& cause) const {
    return reworded(cause, absl::StrCat("edge ", name_, " with rank ", peer_.value, ": ", std::string(cause.message())));
  }

 private:
  const Rank peer_;
  const std::string name_;
};

template <class T> class FarSender;
template <class T> class FarReceiver;

class FarEdges {
 public:
  // Takes the transport's channel of edges. `stream` waits for the events of what leaves; it needs no compute threads.
  FarEdges(actor::System& system, comm::Transport& transport, device::Stream& stream);
  FarEdges(const FarEdges&) = delete;
  FarEdges& operator=(const FarEdges&) = delete;

  // What stands for a port of rank `to`. `name` is the edge's, the same on both sides, one in the whole job.
  template <class T>
  actor::In<T>& in(Rank to, const std::string& name);
  // What stands for a port of rank `from`; a buffer per credit.
  template <class T>
  actor::Out<T>& out(Rank from, const std::string& name, std::vector<device::Tensor> buffers);

  // All edges with `peer` fail.
  void peer_down(Rank peer, const Status& cause);
  std::int64_t refused() const { return refused_.load(); }

 private:
  template <class T> friend class FarSender;
  template <class T> friend class FarReceiver;
  void add(FarEnd& end);
  void arrive(comm::Arrival arrival);
  // [u64 edge][u32 slot]
  static std::vector<std::byte> header_of(const FarEnd& end, int slot);
  void send(const FarEnd& end, comm::Lane lane, std::span<const std::byte> header, std::span<const std::byte> bulk, comm::Completion sent);

  actor::System& system_;
  comm::Transport& transport_;
  device::Stream& stream_;
  const std::shared_ptr<device::StreamProgress> reached_ = std::make_shared<device::StreamProgress>();
  std::map<std::uint64_t, FarEnd*> ends_;  // by number; fixed before the start
  std::atomic<std::int64_t> refused_{0};
};

// Stands for the receiver in the sender's process.
template <class T>
class FarSender final : public actor::Actor, private FarEnd {
 public:
  FarSender(FarEdges& far, Rank to, const std::string& name) : FarEnd(to, name), far_(far), self_(self()) {
    on(&FarSender::slot_back);
    on(&FarSender::failed);
    far_.add(*this);
  }
  actor::In<T> in{*this, "in", &FarSender::take};

 private:
  struct SlotBack {
    int slot = 0;
  };
  // Of the progress thread, but for `out`.
  struct Slot {
    std::atomic<bool> out{false};  // a frame of it has been sent
    bool sent = false, back = false;
  };

  void started() override {
    held_.resize(static_cast<std::size_t>(in.credits()));
    slots_ = std::vector<Slot>(held_.size());
    begun_.store(true, std::memory_order_release);
  }
  void take(actor::Delivery<T> delivery) {
    const int at = delivery.credit.slot();
    auto& held = held_[static_cast<std::size_t>(at)];
    held = std::move(delivery);
    auto header = FarEdges::header_of(*this, at);
    FieldWriter write(header);
    write(held.sequence);
    fields(write, held.message);
    const auto view = tensor_of(held.message).view();
    const std::span bulk(static_cast<const std::byte*>(view.raw()), static_cast<std::size_t>(view.bytes()));
    if (held.message.ready.recorded()) far_.stream_.wait(held.message.ready);
    far_.stream_.notify([this, at, header = std::move(header), bulk](device::StreamContext&) {
      slots_[static_cast<std::size_t>(at)].out.store(true, std::memory_order_release);
      far_.send(*this, comm::Lane::kBulk, header, bulk, [this, at](Status result) {
        if (!result.ok()) return fail_with(result);
        slots_[static_cast<std::size_t>(at)].sent = true;
        free_if_done(at);
      });
    });
    set_state(trace::State::kRunning, {}, static_cast<std::int64_t>(held.sequence));
  }
  Status arrive(comm::Arrival, FieldReader rest) override {
    std::uint32_t slot = 0;
    rest(slot);
    const bool has_it = rest.good() && begun_.load(std::memory_order_acquire) && slot < slots_.size() &&
                        slots_[slot].out.load(std::memory_order_acquire) && !slots_[slot].back;
    if (!has_it) {
      return absl::InvalidArgumentError(absl::StrCat("gave back slot ", slot, ", which it does not have"));
    }
    slots_[slot].back = true;
    free_if_done(static_cast<int>(slot));
    return ok();
  }
  void free_if_done(int at) {
    auto& slot = slots_[static_cast<std::size_t>(at)];
    if (!slot.sent || !slot.back) return;
    slot.sent = slot.back = false;
    slot.out.store(false, std::memory_order_relaxed);
    self_.send(SlotBack{at});
  }
  void slot_back(SlotBack message) {
    held_[static_cast<std::size_t>(message.slot)] = {};
    set_state(trace::State::kIdle);
  }
  void failed(FarEdgeFailed message) { fail(told(message.cause)); }
  // Nothing that is still under way is needed any more.
  void stop_requested() override {
    held_.clear();
    stop();
  }
  const actor::Ref& actor() const override { return self_; }

  FarEdges& far_;
  const actor::Ref self_;
  std::vector<actor::Delivery<T>> held_;  // by slot
  std::vector<Slot> slots_;
  std::atomic<bool> begun_{false};        // slots_ are there
};

// Stands for the sender in the receiver's process. Every slot that is not on its way through this process is lent to the sender, and so
// taken from `out`.
template <class T>
class FarReceiver final : public actor::Actor, private FarEnd {
 public:
  FarReceiver(FarEdges& far, Rank from, const std::string& name, std::vector<device::Tensor> buffers)
      : FarEnd(from, name), far_(far), self_(self()), buffers_(std::move(buffers)), lent_(buffers_.size()), slots_(buffers_.size()) {
    on(&FarReceiver::fetched);
    on(&FarReceiver::failed);
    out.on_credit(&FarReceiver::credits_came);
    for (auto& lent : lent_) lent.store(true);
    far_.add(*this);
  }
  actor::Out<T> out{*this, "out"};

 private:
  struct Fetched {
    T message;
    int slot = 0;
    std::uint64_t sequence = 0;
  };

  void started() override {
    TROUPE_CHECK(out.credits() == static_cast<int>(buffers_.size())) 
        << name() << " has " << buffers_.size() << " buffers for " << out.credits() << " credits";
    while (out.ready()) keep(out.take());
  }
  actor::OutSlot& keep(actor::OutSlot slot) {
    auto& kept = slots_[static_cast<std::size_t>(slot.index)];
    kept = std::move(slot);
    return kept;
  }
  // Fetches start in the order of the frames and may end in another.
  Status arrive(comm::Arrival arrival, FieldReader rest) override {
    std::uint32_t slot = 0;
    std::uint64_t sequence = 0;
    Fetched fetched;
    rest(slot, sequence);
    fields(rest, fetched.message);
    if (!rest.good()) return absl::InvalidArgumentError("what came is no message of it: is it the same build?");
    if (sequence != next_arrival_) {
      return absl::InvalidArgumentError(absl::StrCat("message ", sequence, " came where ", next_arrival_, " was due"));
    }
    if (slot >= lent_.size() || !lent_[slot].load(std::memory_order_acquire)) {
      return absl::InvalidArgumentError(absl::StrCat("message ", sequence, " is for slot ", slot, " of ", lent_.size(),
                                                     ", which it was not given"));
    }
    const auto buffer = buffers_[slot].view();
    if (arrival.bulk_bytes() != buffer.bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("message ", sequence, " brings ", arrival.bulk_bytes(), " bytes for a buffer of ",
                                                     buffer.bytes(), ": do all processes run the same config?"));
    }
    ++next_arrival_;
    lent_[slot].store(false, std::memory_order_relaxed);
    fetched.slot = static_cast<int>(slot);
    fetched.sequence = sequence;
    arrival.fetch(static_cast<std::byte*>(buffer.raw()), [this, fetched = std::move(fetched)](Status result) mutable {
      if (!result.ok()) return fail_with(result);
      self_.send(std::move(fetched));
    });
    return ok();
  }
  void fetched(Fetched message) {
    early_.emplace(message.sequence, std::move(message));
    for (auto next = early_.begin(); next != early_.end() && next->first == next_sent_; next = early_.erase(next)) {
      auto& [arrived, slot, sequence] = next->second;
      tensor_of(arrived) = buffers_[static_cast<std::size_t>(slot)];
      arrived.ready = device::Event(far_.reached_, 0);  // it is there
      out.send(slots_[static_cast<std::size_t>(slot)], std::move(arrived));
      ++next_sent_;
    }
  }
  void credits_came() {
    while (out.ready()) {
      const auto& slot = keep(out.take());
      if (slot.reusable_after.recorded()) {
        far_.stream_.wait(slot.reusable_after);
        far_.stream_.notify([this, at = slot.index](device::StreamContext&) { lend(at); });
      } else {
        lend(slot.index);
      }
    }
  }
  // On the stream, or here.
  void lend(int slot) {
    lent_[static_cast<std::size_t>(slot)].store(true, std::memory_order_release);
    far_.send(*this, comm::Lane::kControl, FarEdges::header_of(*this, slot), {}, [this](Status result) {
      if (!result.ok()) fail_with(result);
    });
  }
  void failed(FarEdgeFailed message) { fail(told(message.cause)); }
  void stop_requested() override {
    for (auto& slot : slots_) {
      if (lent_[static_cast<std::size_t>(slot.index)].load()) out.put_back(slot);
    }
    stop();
  }
  const actor::Ref& actor() const override { return self_; }

  FarEdges& far_;
  const actor::Ref self_;
  const std::vector<device::Tensor> buffers_;  // by slot
  std::vector<std::atomic<bool>> lent_;        // to the sender: set when the slot goes back, cleared when its frame comes
  std::vector<actor::OutSlot> slots_;
  std::uint64_t next_arrival_ = 0;             // of the progress thread
  std::map<std::uint64_t, Fetched> early_;     // fetched, one before them is not
  std::uint64_t next_sent_ = 0;
};

template <class T>
actor::In<T>& FarEdges::in(Rank to, const std::string& name) {
  return system_.add<FarSender<T>>(absl::StrCat(name, "@", to.value), *this, to, name).in;
}

template <class T>
actor::Out<T>& FarEdges::out(Rank from, const std::string& name, std::vector<device::Tensor> buffers) {
  return system_.add<FarReceiver<T>>(absl::StrCat(name, "@", from.value), *this, from, name, std::move(buffers)).out;
}

}  // namespace troupe::actors
