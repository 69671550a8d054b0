// A typed, bounded channel between two actors: a fixed number of credits, order kept, back-pressure without
// blocking.
//
// The sender takes a slot, fills what belongs to it, sends. The receiver gets a Delivery with the slot's
// Credit; dropping the credit gives the slot back, release(event) says after which device event the slot's
// buffer may be overwritten. The sender hears of returned credits by one control message at a time, however
// many came back (DESIGN law 4).
//
// Threads: Out and In in their actors' contexts. A Credit may be moved to and dropped by any thread; it may
// outlive the System. Errors (all bugs, TROUPE_CHECK): sending without a credit, a slot not taken, a jump of
// the sequence, an unconnected port. Invariants: free + in flight = capacity at any instant
// (trace/edge_probe.h); at most one outstanding credit message per edge
// (EdgeTest.OneCreditMessageForManyCredits); a mailbox holds at most System::mailbox_bound messages of edges.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/actor.h"
#include "runtime/device/stream.h"
#include "runtime/trace/edge_probe.h"

namespace troupe::actor {

struct EdgeOptions {
  int credits = 1;
};

// A slot to be filled. `reusable_after` is empty when the buffer of the slot is free already.
struct OutSlot {
  int index = -1;
  device::Event reusable_after;
};

class OutPort;
class InPort;

// What the two ends share.
class Edge {
 public:
  Edge(OutPort& out, InPort& in, EdgeOptions options);

  const std::shared_ptr<trace::EdgeProbe>& probe() const { return probe_; }
  const std::string& name() const { return probe_->name; }
  int capacity() const { return static_cast<int>(ring_.size()); }
  const Ref& sender() const { return sender_; }
  const Ref& receiver() const { return receiver_; }

 private:
  friend class Credit;
  friend class OutPort;
  friend class InPort;
  static void give_back(const std::shared_ptr<Edge>& edge, int slot, bool delivered, device::Event after);

  const Ref sender_, receiver_;
  OutPort* const out_;  // touched in the sender's context only
  InPort* const in_;    // touched in the receiver's context only
  const std::shared_ptr<trace::EdgeProbe> probe_;
  // Returned slots in the order of their return, for the sender to collect. A cell holds slot + 1, 0 when
  // empty. A slot is in one place only, so the ring never overflows. reusable_after_[slot] belongs to whoever
  // has the slot.
  std::vector<std::atomic<int>> ring_;
  std::vector<device::Event> reusable_after_;
  std::atomic<std::uint64_t> ring_tail_{0};
  std::uint64_t ring_head_ = 0;        // sender's
  std::atomic<bool> notified_{false};  // a credit message is on its way
  std::uint64_t next_sequence_ = 0;    // receiver's
};

// The right to one slot of an edge, while the receiver (or the work it enqueued) holds the message. Gives it
// back when it dies.
class Credit {
 public:
  Credit() = default;
  Credit(std::shared_ptr<Edge> edge, int slot) : edge_(std::move(edge)), slot_(slot) {}
  Credit(Credit&& other) noexcept
      : edge_(std::move(other.edge_)), slot_(other.slot_), delivered_(other.delivered_) {}
  Credit& operator=(Credit&& other) noexcept {
    if (this != &other) {
      release();
      edge_ = std::move(other.edge_);
      slot_ = other.slot_;
      delivered_ = other.delivered_;
    }
    return *this;
  }
  ~Credit() { release(); }

  int slot() const { return slot_; }
  explicit operator bool() const { return edge_ != nullptr; }
  void release() { release(device::Event{}); }
  // The slot's buffer may be overwritten once `after` is done.
  void release(const device::Event& after) {
    if (const auto edge = std::exchange(edge_, nullptr)) Edge::give_back(edge, slot_, delivered_, after);
  }

 private:
  friend class InPort;
  std::shared_ptr<Edge> edge_;
  int slot_ = -1;
  bool delivered_ = false;  // it has reached its port
};

template <class T>
struct Delivery {
  T message;
  Credit credit;
  std::uint64_t sequence = 0;  // 0, 1, 2, ... on each edge
};
template <class T>
struct ShownAs<Delivery<T>> {
  static constexpr std::string_view name() { return message_name<T>(); }
};

// What the edge's probe counts as sent: the tensors' bytes where the message's own namespace has a `carried_bytes(const T&)` that says so, else those of
// the struct.
template <class T>
std::int64_t edge_bytes(const T& message) {
  if constexpr (requires { carried_bytes(message); }) {
    return carried_bytes(message);
  } else {
    return sizeof(T);
  }
}

// The part of Out that knows no type.
class OutPort {
 public:
  OutPort(Actor& owner, std::string name);
  OutPort(const OutPort&) = delete;
  OutPort& operator=(const OutPort&) = delete;

  bool ready() const { return free_count_ > 0; }
  OutSlot take();               // a bug if not ready()
  void put_back(OutSlot slot);  // taken and not used after all
  // `handler` runs in the actor's context whenever credits have come back.
  template <class Self>
  void on_credit(void (Self::*handler)()) {
    using Handler = void (Self::*)();
    credit_handler_ = detail::Method::of(handler, [](Actor& actor, const detail::Method& method, void*) {
      (static_cast<Self&>(actor).*method.template as<Handler>())();
    });
  }
  int free() const { return free_count_; }
  int credits() const { return edge_ ? edge_->capacity() : 0; }
  int in_flight() const { return credits() - free(); }
  bool connected() const { return edge_ != nullptr; }
  const std::string& name() const { return name_; }
  Actor& owner() const { return owner_; }
  // For set_state(kWaitingForCredit, out.trace_name()).
  trace::Name trace_name() const { return trace_name_; }
  const Edge& edge() const;

 protected:
  std::uint64_t begin_send(const OutSlot& slot, std::int64_t bytes);  // checks the slot, gives the sequence number
  const std::shared_ptr<Edge>& shared_edge() const { return edge_; }

 private:
  friend class Edge;
  friend class Actor;
  friend void connect_ports(OutPort&, InPort&, EdgeOptions);
  static void collect(Edge& edge);

  Actor& owner_;
  const std::string name_;
  std::shared_ptr<Edge> edge_;
  trace::Name trace_name_;
  detail::Method credit_handler_;
  std::vector<int> free_;  // a ring: the slot that is free the longest goes first
  int free_head_ = 0, free_count_ = 0;
  std::vector<bool> taken_;
  std::uint64_t next_sequence_ = 0;
};

template <class T>
class Out : public OutPort {
 public:
  static_assert(Message<T>, "a message is a struct that moves without throwing");
  Out(Actor& owner, std::string name) : OutPort(owner, std::move(name)) {}

  void send(const OutSlot& slot, T message) {
    const std::uint64_t sequence = begin_send(slot, edge_bytes(message));
    detail::post(shared_edge()->receiver().cell(),
                 Delivery<T>{std::move(message), Credit(shared_edge(), slot.index), sequence}, Lane::kNormal,
                 &owner());
  }
  // take() and send() in one.
  void send(T message) { send(take(), std::move(message)); }
};

// The part of In that knows no type.
class InPort {
 public:
  InPort(Actor& owner, std::string name) : owner_(owner), name_(std::move(name)) {}
  InPort(const InPort&) = delete;
  InPort& operator=(const InPort&) = delete;
  const std::string& name() const { return name_; }
  Actor& owner() const { return owner_; }
  int edges() const { return edges_; }
  int credits() const { return credits_; }  // of all its edges

 protected:
  // The port that `credit` came to, after the sequence number was checked.
  static InPort& arrive(Credit& credit, std::uint64_t sequence);
  static void register_type(Actor& owner, const MessageType& type, detail::Method::Invoke invoke);
  detail::Method handler_;

 private:
  friend void connect_ports(OutPort&, InPort&, EdgeOptions);
  Actor& owner_;
  const std::string name_;
  int edges_ = 0;  // several senders may be connected to one port
  int credits_ = 0;
};

template <class T>
class In : public InPort {
 public:
  // `Self` is the owner's class or one of its bases.
  template <class Owner, class Self>
  In(Owner& owner, std::string name, void (Self::*handler)(Delivery<T>)) : InPort(owner, std::move(name)) {
    using Handler = void (Self::*)(Delivery<T>);
    handler_ = detail::Method::of(handler, [](Actor& actor, const detail::Method& method, void* payload) {
      (static_cast<Self&>(actor).*
       method.template as<Handler>())(std::move(*static_cast<Delivery<T>*>(payload)));
    });
    register_type(owner, message_type<Delivery<T>>(), [](Actor& actor, const detail::Method&, void* payload) {
      auto& delivery = *static_cast<Delivery<T>*>(payload);
      auto& port = static_cast<In&>(arrive(delivery.credit, delivery.sequence));
      port.handler_.invoke(actor, port.handler_, payload);
    });
  }
};

void connect_ports(OutPort& out, InPort& in, EdgeOptions options);

// Between two actors of one System, before it starts.
template <class T>
void connect(Out<T>& out, In<T>& in, EdgeOptions options = {}) {
  connect_ports(out, in, options);
}

}  // namespace troupe::actor
