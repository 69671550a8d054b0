// A job of two ranks that goes on whatever it loses, to be looked at until it is ended:
//
//   rank 0: feeder ==Parcel==> rank 1: worker ==Parcel==> fragile     `feeder` sends kParcels and rests
//                              rank 1: chatter --Note--> fragile, worker     kNotes each, and rests
//   rank 0: listener <==Parcel== rank 1: silent-sender                nothing ever comes
//
//                              rank 1: heir                            fails when `fragile` has
//
// `fragile` fails at its kCrashAt-th message. The number of chatter's state is how many notes it has sent to each.
#include "actors/control/job_graph.h"
#include "comm/world/job_world.h"
#include "runtime/actor/edge.h"
#include "tests/proc/graph_program.h"
#include "tests/proc/inspect/lossy_graph.h"

using troupe::Rank;
using troupe::Status;
using troupe::actor::Actor;
using troupe::actor::Delivery;
using troupe::actor::In;
using troupe::actor::Out;
using troupe::actor::Ref;
using namespace std::chrono_literals;
using namespace troupe::test;

namespace {

struct Parcel {
  int number = 0;
};
struct Note {};
struct Tick {};

class Feeder : public Actor {
 public:
  Feeder() { parcels.on_credit(&Feeder::feed); }
  Out<Parcel> parcels{*this, "parcels"};

 private:
  void started() override { feed(); }
  void feed() {
    while (sent_ < kParcels && parcels.ready()) parcels.send({sent_++});
  }
  int sent_ = 0;
};

class Worker : public Actor {
 public:
  Worker() {
    on(&Worker::note);
    out.on_credit(&Worker::pass_on);
  }
  In<Parcel> in{*this, "in", &Worker::parcel_came};
  Out<Parcel> out{*this, "out"};

 private:
  void note(Note) {}
  void parcel_came(Delivery<Parcel> parcel) {
    waiting_.push_back(parcel.message);
    pass_on();
  }
  void pass_on() {
    while (!waiting_.empty() && out.ready()) {
      out.send(waiting_.back());
      waiting_.pop_back();
    }
  }
  std::vector<Parcel> waiting_;
};

class Fragile : public Actor {
 public:
  Fragile() { on(&Fragile::note); }
  In<Parcel> in{*this, "in", &Fragile::parcel_came};

 private:
  void note(Note) { count(); }
  void parcel_came(Delivery<Parcel>) { count(); }
  void count() {
    if (++handled_ == kCrashAt) fail(absl::InternalError("planted"));
  }
  int handled_ = 0;
};

class Chatter : public Actor {
 public:
  explicit Chatter(std::vector<Ref> to) : to_(std::move(to)) { on(&Chatter::tick); }

 private:
  void started() override {
    told_ = name_for("told");
    tick({});
  }
  void tick(Tick) {
    for (const auto& to : to_) send(to, Note{});
    set_state(troupe::trace::State::kIdle, told_, ++sent_);
    if (sent_ < kNotes) send_after(5ms, Tick{});
  }
  const std::vector<Ref> to_;
  troupe::trace::Name told_;
  int sent_ = 0;
};

class Heir : public Actor {
 public:
  explicit Heir(Ref of) : of_(std::move(of)) {}

 private:
  void started() override { monitor(of_); }
  void down(const troupe::actor::Down& down) override { fail(absl::AbortedError("nothing is left to inherit"), &down); }
  const Ref of_;
};

class Listener : public Actor {
 public:
  In<Parcel> in{*this, "in", &Listener::parcel_came};

 private:
  void started() override { set_state(troupe::trace::State::kWaitingForInput, name_for("in")); }
  void parcel_came(Delivery<Parcel>) {}
};

class SilentSender : public Actor {
 public:
  Out<Parcel> out{*this, "out"};
};

Status run(troupe::comm::JobWorld& world) {
  if (Status status = world.enter({.ranks = 2, .heartbeat_timeout_s = 20}); !status.ok()) return status;
  troupe::actors::JobGraph graph(world.transports().front(), {.stop_on_failure = false});
  graph.be_inspectable(world.job_id(), world.inspection_key());
  auto& system = graph.system();
  if (world.leads()) {
    auto& feeder = system.add<Feeder>("feeder");
    auto& listener = system.add<Listener>("listener");
    connect(feeder.parcels, graph.far().in<Parcel>(Rank(1), "parcels"), {.credits = 2});
    connect(graph.far().out<Parcel>(Rank(1), "nothing", {.credits = 2}), listener.in, {.credits = 2});
  } else {
    auto& worker = system.add<Worker>("worker");
    auto& fragile = system.add<Fragile>("fragile");
    auto& sender = system.add<SilentSender>("silent-sender");
    connect(graph.far().out<Parcel>(Rank(0), "parcels", {.credits = 2}), worker.in, {.credits = 2});
    connect(worker.out, fragile.in, {.credits = 3});
    connect(sender.out, graph.far().in<Parcel>(Rank(0), "nothing"), {.credits = 2});
    system.add<Heir>("heir", fragile.self());
    system.add<Chatter>("chatter", std::vector<Ref>{fragile.self(), worker.self()});
  }
  return run_watched(world, graph);
}

}  // namespace

int main() { return graph_program("lossy_graph", run); }
