// Frames over UCX: shared memory within a machine, tcp or verbs between machines, as UCX finds best. WIRE.md
// has the bytes.
//
// Threads, order, errors: as comm/transport.h says. Besides:
// - A bulk of up to kEagerBytesMost goes with its header: `sent` is ok when the bytes have left, whether or
// not they are fetched.
//   A larger one is offered and pulled by the receiver: `sent` is ok when it was fetched, kCancelled when the
//   receiver dropped it.
// - A peer is down when UCX says so, when nothing was heard of it for heartbeat_timeout (it may be stopped),
// or when it said that it
//   stops; the cause tells which. Heartbeats go to every rank that this one has sent to or heard from, and to the next
// one once be_reachable().
// Owns: two UCX workers, one a lane, and the thread that progresses them.
// Errors: open: kUnavailable, kFailedPrecondition where UCX has no usable transport. start:
// kFailedPrecondition before set_peers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.h"

namespace troupe::comm {

struct UcxOptions {
  Rank rank;
  int world = 1;
  std::uint64_t job = 0;          // the same number on all ranks of the job, another for every other job
  bool one_machine = false;       // all ranks are here: nobody else can connect
  std::chrono::nanoseconds heartbeat_timeout = std::chrono::seconds(5);
  // From the first frame to a peer until it is heard for the first time: its address may be published long before it starts. Where all are
  // be_reachable() as soon as addresses are known, heartbeat_timeout will do; less than that counts as that.
  std::chrono::nanoseconds first_contact_timeout = std::chrono::seconds(60);
  std::chrono::microseconds spin =
      std::chrono::microseconds(20);  // how long to look for more before sleeping
};

class UcxTransport final : public Transport {
 public:
  static constexpr std::size_t kEagerBytesMost = 8192;

  static StatusOr<std::unique_ptr<UcxTransport>> open(const UcxOptions& options);
  ~UcxTransport() override;

  // Bytes to be published; whoever has them may send at once, frames wait for start().
  const std::string& address() const;
  // By rank, all of them, the same on all ranks: they are the job's incarnation, and frames of another one are refused. Before start().
  void set_peers(std::vector<std::string> addresses);
  // After set_peers, by all ranks: from now on heartbeats are answered, and each rank sends some to the next one. So whoever stops is noticed,
  // even if everybody waits for him and nobody has sent him anything. What else comes waits for start().
  void be_reachable();
  // Between be_reachable and start: not ok if the next rank is down, and why. For who waits for the others by other means meanwhile.
  Status check_next();

  Rank rank() const override;
  int world() const override;
  void handle(Channel channel, Handler handler) override;
  void on_peer_down(PeerDown handler) override;
  Status start() override;
  void send(Frame frame) override;
  void post(absl::AnyInvocable<void()> function) override;
  bool on_progress_thread() const override;
  void stop(const Status& why = ok()) override;
  Counters counters() const override;

 private:
  struct State;
  explicit UcxTransport(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe::comm
