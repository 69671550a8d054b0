// A job of a few actors in a situation that its argument names, until it is ended:
//
//   credits  a producer that is faster than its consumer, which holds each delivery for a while; the edge has two credits
//   dead     an actor that has ended, and one that goes on sending to it
//   memory   an actor that needs 256 MiB, once, and gives them back
#include <memory>
#include <string_view>

#include "actors/control/job_graph.h"
#include "comm/world/job_world.h"
#include "runtime/actor/edge.h"
#include "tests/proc/graph_program.h"

using troupe::Status;
using troupe::actor::Actor;
using troupe::actor::Delivery;
using troupe::actor::In;
using troupe::actor::Out;
using troupe::actor::Ref;
using namespace std::chrono_literals;

namespace {

struct Work {};
struct Note {};
struct Tick {};

class Producer : public Actor {
 public:
  Producer() { work.on_credit(&Producer::produce); }
  Out<Work> work{*this, "work"};

 private:
  void started() override { produce(); }
  void produce() {
    while (work.ready()) work.send({});
    set_state(troupe::trace::State::kWaitingForCredit, work.trace_name());
  }
};

class SlowConsumer : public Actor {
 public:
  SlowConsumer() { on(&SlowConsumer::done); }
  In<Work> in{*this, "in", &SlowConsumer::work_came};

 private:
  void work_came(Delivery<Work> work) {
    held_.push_back(std::move(work));
    if (held_.size() == 1) send_after(400ms, Tick{});
  }
  void done(Tick) {
    held_.erase(held_.begin());  // the credit goes back
    if (!held_.empty()) send_after(400ms, Tick{});
  }
  std::vector<Delivery<Work>> held_;
};

class Gone : public Actor {
 public:
  Gone() { on(&Gone::note); }

 private:
  void note(Note) { stop(); }
};

class Sender : public Actor {
 public:
  explicit Sender(Ref to) : to_(std::move(to)) { on(&Sender::tick); }

 private:
  void started() override { tick({}); }
  void tick(Tick) {
    send(to_, Note{});
    send_after(50ms, Tick{});
  }
  const Ref to_;
};

class Hungry : public Actor {
  void started() override {
    constexpr std::size_t kBytes = std::size_t{256} << 20;  // so many are given back to the system, too
    const std::unique_ptr<char[]> bytes(new char[kBytes]);
    for (std::size_t i = 0; i < kBytes; i += 4096) const_cast<volatile char&>(bytes[i]) = 1;
  }
};

Status run(troupe::comm::JobWorld& world, std::string_view what) {
  if (Status status = world.enter({.ranks = 1}); !status.ok()) return status;
  troupe::actors::JobGraph graph(nullptr);
  graph.be_inspectable(world.job_id());
  auto& system = graph.system();
  if (what == "credits") {
    auto& producer = system.add<Producer>("producer");
    auto& consumer = system.add<SlowConsumer>("consumer");
    connect(producer.work, consumer.in, {.credits = 2});
  } else if (what == "memory") {
    system.add<Hungry>("hungry");
  } else {
    auto& gone = system.add<Gone>("gone");
    system.add<Sender>("sender", gone.self());
  }
  return troupe::test::run_watched(world, graph);
}

}  // namespace

int main(int argc, char** argv) {
  return troupe::test::graph_program("provoked", [&](troupe::comm::JobWorld& world) { return run(world, argc > 1 ? argv[1] : ""); });
}
