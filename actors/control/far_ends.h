// The actors that stand for the far port of an edge between processes: in the sender's process for the receiver, and the other way round.
// far_edge.h says what they promise.
// Limits: besides its edge's messages, the mailbox of either holds at most a word for each slot, and one that the edge has failed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/control/far_wire.h"
#include "runtime/actor/system.h"
#include "runtime/trace/rank_trace.h"

namespace troupe::actors {

// Stands for the receiver in the sender's process.
template <class T>
class FarSender final : public actor::Actor, private FarEnd {
  static_assert(!std::is_trivially_copyable_v<T> || sizeof(T) + FarWire::kOwnBytes <= comm::kHeaderBytesMost, "too large for a frame's header");

 public:
  FarSender(FarWire& wire, Rank to, const std::string& name) : FarEnd(to, name), wire_(wire), self_(self()) {
    on(&FarSender::slot_back);
    on(&FarSender::failed);
    wire_.add(*this);
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
    frame_ = name_for(trace::kFrameOut);
    begun_.store(true, std::memory_order_release);
  }
  void take(actor::Delivery<T> delivery) {
    const int at = delivery.credit.slot();
    auto& held = held_[static_cast<std::size_t>(at)];
    held = std::move(delivery);
    probe().mark(frame_, static_cast<std::int64_t>(held.sequence));
    auto header = FarWire::header_of(*this, at);
    FieldWriter write(header);
    write(held.sequence);
    fields(write, held.message);
    if constexpr (CarriesTensor<T>) {
      const auto view = tensor_of(held.message).view();
      const std::span bulk(static_cast<const std::byte*>(view.raw()), static_cast<std::size_t>(view.bytes()));
      if (held.message.ready.recorded()) wire_.stream().wait(held.message.ready);
      wire_.stream().notify([this, at, header = std::move(header), bulk](device::StreamContext&) { send(at, header, bulk); });
    } else {
      send(at, header, {});
    }
    set_state(trace::State::kRunning, frame_, static_cast<std::int64_t>(held.sequence));
  }
  // On the stream where the message has a tensor, else here.
  void send(int at, std::span<const std::byte> header, std::span<const std::byte> bulk) {
    slots_[static_cast<std::size_t>(at)].out.store(true, std::memory_order_release);
    wire_.send(*this, comm::Lane::kBulk, header, bulk, [this, at](Status result) {
      if (!result.ok()) return fail_with(result);
      slots_[static_cast<std::size_t>(at)].sent = true;
      free_if_done(at);
    });
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

  FarWire& wire_;
  const actor::Ref self_;
  std::vector<actor::Delivery<T>> held_;  // by slot
  std::vector<Slot> slots_;
  std::atomic<bool> begun_{false};        // slots_ are there
  trace::Name frame_;
};

// Stands for the sender in the receiver's process. Every slot that is not on its way through this process is lent to the sender, and so
// taken from `out`.
template <class T>
class FarReceiver final : public actor::Actor, private FarEnd {
 public:
  // `buffers`: one for each credit where messages carry tensors, else none.
  FarReceiver(FarWire& wire, Rank from, const std::string& name, std::size_t credits, std::vector<device::Tensor> buffers)
      : FarEnd(from, name), wire_(wire), self_(self()), buffers_(std::move(buffers)), lent_(credits), slots_(credits) {
    on(&FarReceiver::fetched);
    on(&FarReceiver::failed);
    out.on_credit(&FarReceiver::credits_came);
    for (auto& lent : lent_) lent.store(true);
    wire_.add(*this);
  }
  actor::Out<T> out{*this, "out"};

 private:
  struct Fetched {
    T message;
    int slot = 0;
    std::uint64_t sequence = 0;
  };

  void started() override {
    TROUPE_CHECK(out.credits() == static_cast<int>(slots_.size()))
        << name() << " was made for " << slots_.size() << " credits and is connected with " << out.credits();
    while (out.ready()) keep(out.take());
    frame_ = name_for(trace::kFrameIn);
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
    std::int64_t room = 0;
    if constexpr (CarriesTensor<T>) room = buffers_[slot].view().bytes();
    if (arrival.bulk_bytes() != room) {
      return absl::InvalidArgumentError(absl::StrCat("message ", sequence, " brings ", arrival.bulk_bytes(), " bytes for a buffer of ",
                                                     room, ": do all processes run the same config?"));
    }
    ++next_arrival_;
    lent_[slot].store(false, std::memory_order_relaxed);
    fetched.slot = static_cast<int>(slot);
    fetched.sequence = sequence;
    if (room == 0) {
      self_.send(std::move(fetched));
      return ok();
    }
    const auto buffer = buffers_[slot].view();
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
      if constexpr (CarriesTensor<T>) {
        tensor_of(arrived) = buffers_[static_cast<std::size_t>(slot)];
        arrived.ready = wire_.reached();
      }
      probe().mark(frame_, static_cast<std::int64_t>(sequence));
      out.send(slots_[static_cast<std::size_t>(slot)], std::move(arrived));
      ++next_sent_;
    }
  }
  void credits_came() {
    while (out.ready()) {
      const auto& slot = keep(out.take());
      if (slot.reusable_after.recorded()) {
        wire_.stream().wait(slot.reusable_after);
        wire_.stream().notify([this, at = slot.index](device::StreamContext&) { lend(at); });
      } else {
        lend(slot.index);
      }
    }
  }
  // On the stream, or here.
  void lend(int slot) {
    lent_[static_cast<std::size_t>(slot)].store(true, std::memory_order_release);
    wire_.send(*this, comm::Lane::kControl, FarWire::header_of(*this, slot), {}, [this](Status result) {
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

  FarWire& wire_;
  const actor::Ref self_;
  const std::vector<device::Tensor> buffers_;  // by slot
  std::vector<std::atomic<bool>> lent_;        // to the sender: set when the slot goes back, cleared when its frame comes
  std::vector<actor::OutSlot> slots_;
  std::uint64_t next_arrival_ = 0;             // of the progress thread
  std::map<std::uint64_t, Fetched> early_;     // fetched, one before them is not
  std::uint64_t next_sent_ = 0;
  trace::Name frame_;
};

}  // namespace troupe::actors
