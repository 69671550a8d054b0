#include "tests/bench/comm_actors.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/control/far_edge.h"
#include "actors/control/link.h"
#include "runtime/base/check.h"
#include "runtime/base/clock.h"
#include "runtime/device/host_stream.h"
#include "runtime/device/pool.h"
#include "tests/bench/rank_server.h"

namespace troupe::bench {
namespace {

using actors::Activation, actors::SnapshotRequested;
using std::chrono::microseconds;

constexpr microseconds kBetweenMessages{1000};
constexpr std::chrono::seconds kStopMost{10};
constexpr StepId kLast{-2};  // any other number is the time at which the message left

// Rank 0: asked on this thread of the process, tells the listener when it was.
struct Tell {
  bool last = false;
};
class Teller final : public actor::Actor {
 public:
  explicit Teller(actor::Ref listener) : listener_(std::move(listener)) { on(&Teller::tell); }

 private:
  void tell(Tell message) { listener_.send(SnapshotRequested{message.last ? kLast : StepId(clock_.now_ns())}); }

  const actor::Ref listener_;
  const SteadyClock clock_;
};
class Listener final : public actor::Actor {
 public:
  explicit Listener(RankServer& server) : server_(server) { on(&Listener::heard); }

 private:
  void heard(SnapshotRequested message) {
    const std::int64_t now = clock_.now_ns();
    message.step == kLast ? server_.finish(std::exchange(samples_, {})) : samples_.push_back(now - message.step.value);
  }

  RankServer& server_;
  const SteadyClock clock_;
  Samples samples_;
};

// Rank 0: fills every credit until all tensors have gone and every credit is back.
struct Flood {
  std::int64_t count = 0;
};
class BulkFeeder final : public actor::Actor {
 public:
  BulkFeeder(RankServer& server, std::vector<device::Tensor> buffers) : server_(server), buffers_(std::move(buffers)) {
    on(&BulkFeeder::flood);
    out.on_credit(&BulkFeeder::go_on);
  }
  actor::Out<Activation> out{*this, "out"};

 private:
  void flood(Flood message) {
    left_ = message.count;
    begin_ns_ = clock_.now_ns();
    go_on();
  }
  void go_on() {
    while (left_ > 0 && out.ready()) {
      const auto slot = out.take();
      --left_;
      const auto& buffer = buffers_[static_cast<std::size_t>(slot.index)];
      out.send(slot, Activation{.step = StepId(left_), .micro_batch = {}, .x = buffer, .ready = {}});
    }
    if (begin_ns_ != 0 && left_ == 0 && out.in_flight() == 0) server_.finish({clock_.now_ns() - std::exchange(begin_ns_, 0)});
  }

  RankServer& server_;
  const std::vector<device::Tensor> buffers_;
  const SteadyClock clock_;
  std::int64_t left_ = 0, begin_ns_ = 0;
};
class BulkDrain final : public actor::Actor {
 public:
  actor::In<Activation> in{*this, "in", &BulkDrain::take};

 private:
  void take(actor::Delivery<Activation> delivery) { delivery.credit.release(); }
};

class ActorRank {
 public:
  ActorRank(int socket, int rank, const LinkOptions& options) : server_(socket, options) {
    auto opened = comm::UcxTransport::open({.rank = Rank{rank}, .world = options.ranks, .job = 42, .spin = options.spin});
    TROUPE_CHECK(opened.ok()) << opened.status();
    transport_ = std::move(*opened);
    link_ = std::make_unique<actors::Link>(*transport_);
    far_ = std::make_unique<actors::FarEdges>(system_, *transport_, leaving_);
    std::vector<device::Tensor> buffers;
    for (int i = 0; i < kBulksOpen; ++i) buffers.emplace_back(pool_, "edge", device::DType::kF32, device::Shape{kLinkBytesMost / 4});
    const std::string edge = "bench.edge", listener = "listener";
    if (rank == 0) {
      teller_ = system_.add<Teller>("teller", link_->remote(system_, Rank{1}, listener)).self();
      auto& feeder = system_.add<BulkFeeder>("feeder", server_, std::move(buffers));
      feeder_ = feeder.self();
      actor::connect(feeder.out, far_->in<Activation>(Rank{1}, edge), {.credits = kBulksOpen});
    } else {
      link_->expose(listener, system_.add<Listener>("listener", server_).self());
      actor::connect(far_->out<Activation>(Rank{0}, edge, std::move(buffers)), system_.add<BulkDrain>("drain").in, {.credits = kBulksOpen});
    }
    system_.start();
  }
  ~ActorRank() {
    const Status stopped = system_.shutdown(kStopMost);
    transport_->stop();
    TROUPE_CHECK(stopped.ok()) << stopped;
  }

  void serve() {
    server_.serve(*transport_, [this](const Order& order) { return measure(order); });
  }

 private:
  bool first() const { return transport_->rank() == Rank{0}; }

  double measure(const Order& order) {
    if (order.what == Measurement::kActorWake) return first() ? wake(order.count) : percentile(server_.result(), 0.5);
    TROUPE_CHECK(order.what == Measurement::kActorBulk) << "not for actors";
    if (!first()) return 0;
    feeder_.send(Flood{order.count});
    return seconds(server_.result().front());
  }

  // Threads of actors and transport have long been asleep when a message leaves.
  double wake(std::int64_t count) {
    auto due = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) {
      due += kBetweenMessages;
      std::this_thread::sleep_until(due);
      teller_.send(Tell{});
    }
    teller_.send(Tell{.last = true});
    return 0;
  }

  RankServer server_;
  device::BufferPool pool_{kBulksOpen * kLinkBytesMost};
  device::HostStream leaving_{"leaving", 1};
  std::unique_ptr<comm::UcxTransport> transport_;
  std::unique_ptr<actors::Link> link_;
  std::unique_ptr<actors::FarEdges> far_;
  actor::System system_;  // ends before what its actors use
  actor::Ref teller_, feeder_;
};

}  // namespace

void run_actor_rank(int socket, int rank, const LinkOptions& options) { ActorRank(socket, rank, options).serve(); }

}  // namespace troupe::bench
