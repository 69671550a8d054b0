#include "runtime/actor/edge.h"

#include "absl/strings/str_cat.h"
#include "runtime/actor/system_core.h"

namespace troupe::actor {

// --- Edge ---

Edge::Edge(OutPort& out, InPort& in, EdgeOptions options)
    : sender_(out.owner().self()),
      receiver_(in.owner().self()),
      out_(&out),
      in_(&in),
      probe_(std::make_shared<trace::EdgeProbe>()),
      ring_(static_cast<std::size_t>(options.credits)),
      reusable_after_(static_cast<std::size_t>(options.credits)) {
  probe_->from = absl::StrCat(sender_.name(), ".", out.name());
  probe_->to = absl::StrCat(receiver_.name(), ".", in.name());
  probe_->name = absl::StrCat(probe_->from, " -> ", probe_->to);
  probe_->capacity = options.credits;
  probe_->free.store(options.credits, std::memory_order_relaxed);
}

void Edge::give_back(const std::shared_ptr<Edge>& edge, int slot, bool delivered, device::Event after) {
  edge->reusable_after_[static_cast<std::size_t>(slot)] = std::move(after);
  if (!delivered)
    edge->probe_->was_delivered();  // a dead letter: it leaves the mailbox too
  edge->probe_->was_returned();
  const std::uint64_t at = edge->ring_tail_.fetch_add(1, std::memory_order_relaxed);
  edge->ring_[at % edge->ring_.size()].store(slot + 1, std::memory_order_release);
  // Whoever finds the flag down raises it and sends; the sender lowers it before it collects, so nothing is
  // left behind.
  if (!edge->notified_.exchange(true, std::memory_order_acq_rel)) {
    edge->sender_.send(detail::CreditReturned{edge}, Lane::kUrgent);
  }
}

// --- OutPort ---

OutPort::OutPort(Actor& owner, std::string name) : owner_(owner), name_(std::move(name)) {}

const Edge& OutPort::edge() const {
  TROUPE_CHECK(edge_ != nullptr) << "port '" << owner_.name() << "." << name_ << "' is not connected";
  return *edge_;
}

OutSlot OutPort::take() {
  TROUPE_CHECK(ready()) << "edge " << edge().name() << ": no credit left of " << credits()
                        << "; ask ready() first, or wait for on_credit";
  const int slot = free_[static_cast<std::size_t>(free_head_)];
  free_head_ = (free_head_ + 1) % credits();
  --free_count_;
  taken_[static_cast<std::size_t>(slot)] = true;
  edge_->probe_->was_taken(free_count_);
  return OutSlot{slot, edge_->reusable_after_[static_cast<std::size_t>(slot)]};
}

void OutPort::put_back(OutSlot slot) {
  TROUPE_CHECK(slot.index >= 0 && slot.index < credits() && taken_[static_cast<std::size_t>(slot.index)])
      << "edge " << edge().name() << ": slot " << slot.index << " put back but not taken";
  taken_[static_cast<std::size_t>(slot.index)] = false;
  free_[static_cast<std::size_t>((free_head_ + free_count_) % credits())] = slot.index;
  ++free_count_;
  edge_->probe_->was_put_back(free_count_);
}

std::uint64_t OutPort::begin_send(const OutSlot& slot, std::int64_t bytes) {
  TROUPE_CHECK(slot.index >= 0 && slot.index < credits() && taken_[static_cast<std::size_t>(slot.index)])
      << "edge " << edge().name() << ": slot " << slot.index << " sent but not taken";
  taken_[static_cast<std::size_t>(slot.index)] = false;
  edge_->reusable_after_[static_cast<std::size_t>(slot.index)] = device::Event();
  edge_->probe_->was_sent(bytes);
  return next_sequence_++;
}

void OutPort::collect(Edge& edge) {
  edge.notified_.exchange(false, std::memory_order_acq_rel);
  OutPort& port = *edge.out_;
  bool any = false;
  while (true) {
    auto& cell = edge.ring_[edge.ring_head_ % edge.ring_.size()];
    const int entry = cell.load(std::memory_order_acquire);
    if (entry == 0) break;
    cell.store(0, std::memory_order_relaxed);
    ++edge.ring_head_;
    port.free_[static_cast<std::size_t>((port.free_head_ + port.free_count_) % port.credits())] = entry - 1;
    ++port.free_count_;
    any = true;
    edge.probe_->was_reclaimed(port.free_count_);
  }
  if (any && port.credit_handler_.invoke != nullptr) {
    port.credit_handler_.invoke(port.owner_, port.credit_handler_, nullptr);
  }
}

// --- InPort ---

InPort& InPort::arrive(Credit& credit, std::uint64_t sequence) {
  Edge& edge = *credit.edge_;
  TROUPE_CHECK(sequence == edge.next_sequence_) << "edge " << edge.name() << ": message " << sequence
                                                << " arrived where " << edge.next_sequence_ << " was due";
  ++edge.next_sequence_;
  credit.delivered_ = true;
  edge.probe_->was_delivered();
  return *edge.in_;
}

void InPort::register_type(Actor& owner, const MessageType& type, detail::Method::Invoke invoke) {
  if (!owner.has_entry(type)) owner.add_entry(type, detail::Method{invoke, {}});
}

void connect_ports(OutPort& out, InPort& in, EdgeOptions options) {
  auto& from = out.owner().self().cell();
  auto& to = in.owner().self().cell();
  TROUPE_CHECK(from.core != nullptr && from.core == to.core)
      << "connect " << from.name() << "." << out.name() << " and " << to.name() << "." << in.name()
      << ": both actors must have been added to the same System";
  TROUPE_CHECK(!from.core->started) << "connect " << from.name() << "." << out.name()
                                    << ": the System has started";
  TROUPE_CHECK(!out.connected()) << "port " << from.name() << "." << out.name() << " is connected already";
  TROUPE_CHECK(options.credits >= 1) << "edge from " << from.name() << "." << out.name() << " with "
                                     << options.credits << " credits";
  out.edge_ = std::make_shared<Edge>(out, in, options);
  out.trace_name_ = from.core->probes.intern(out.edge_->probe()->to);
  out.free_.resize(static_cast<std::size_t>(options.credits));
  for (int slot = 0; slot < options.credits; ++slot) out.free_[static_cast<std::size_t>(slot)] = slot;
  out.free_count_ = options.credits;
  out.taken_.assign(static_cast<std::size_t>(options.credits), false);
  ++in.edges_;
  in.credits_ += options.credits;
  from.outbound_edges += 1;
  to.inbound_credits += options.credits;
  from.core->probes.add(out.edge_->probe());
}

}  // namespace troupe::actor
