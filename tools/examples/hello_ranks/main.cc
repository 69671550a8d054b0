// The graph of hello_actors over two processes: the counter and the printer in rank 0, the squarer in rank 1. The actors know nothing of it;
// only who connects them does.
//
//   rank 0:  counter ==Number==>         ==Number==> printer
//   rank 1:                      squarer
//
//   troupe launch --nproc 2 -- build/release/examples/hello_ranks      (or mpirun, srun, torchrun)
#include <cstdio>

#include "actors/control/job_graph.h"
#include "comm/world/job_world.h"
#include "runtime/actor/edge.h"

using troupe::Rank;
using troupe::Status;
using troupe::actor::Actor;
using troupe::actor::Delivery;
using troupe::actor::In;
using troupe::actor::Out;

namespace {

constexpr int kCount = 10;

// Without pointers, so it travels as it is.
struct Number {
  int value = 0;
};

class Counter : public Actor {
 public:
  Counter() { numbers.on_credit(&Counter::send_what_may); }
  Out<Number> numbers{*this, "numbers"};

 private:
  void started() override { send_what_may(); }
  void send_what_may() {
    while (next_ <= kCount && numbers.ready()) numbers.send({next_++});
  }
  int next_ = 1;
};

class Squarer : public Actor {
 public:
  Squarer() { squares.on_credit(&Squarer::pass_on); }
  In<Number> numbers{*this, "numbers", &Squarer::number_came};
  Out<Number> squares{*this, "squares"};

 private:
  void number_came(Delivery<Number> number) {
    waiting_.push_back(std::move(number));
    pass_on();
  }
  void pass_on() {
    while (!waiting_.empty() && squares.ready()) {
      const int value = waiting_.front().message.value;
      squares.send({value * value});
      waiting_.erase(waiting_.begin());  // the credit goes back here, to the other process
    }
  }
  std::vector<Delivery<Number>> waiting_;  // never more than the edge's credits
};

class Printer : public Actor {
 public:
  In<Number> squares{*this, "squares", &Printer::square_came};

 private:
  void square_came(Delivery<Number> square) {
    std::printf("%d\n", square.message.value);
    if (--left_ == 0) finish_job();  // in all processes
  }
  int left_ = kCount;
};

Status run(troupe::comm::JobWorld& world) {
  if (world.place().world != 2) return absl::InvalidArgumentError("two processes, please: troupe launch --nproc 2 -- hello_ranks");
  if (Status status = world.enter({.ranks = 2}); !status.ok()) return status;

  troupe::actors::JobGraph graph(world.transports().front());
  graph.be_inspectable(world.job_id(), world.inspection_key());  // by troupe jobs, troupe inspect
  auto& system = graph.system();
  auto& far = graph.far();
  if (world.leads()) {
    connect(system.add<Counter>("counter").numbers, far.in<Number>(Rank(1), "numbers"), {.credits = 2});
    connect(far.out<Number>(Rank(1), "squares", {.credits = 1}), system.add<Printer>("printer").squares, {.credits = 1});
  } else {
    auto& squarer = system.add<Squarer>("squarer");
    connect(far.out<Number>(Rank(0), "numbers", {.credits = 2}), squarer.numbers, {.credits = 2});
    connect(squarer.squares, far.in<Number>(Rank(0), "squares"), {.credits = 1});
  }
  world.watch([&](Rank rank, const Status& cause) { graph.lost(rank, cause); });
  Status status = graph.run();
  world.end_watch();
  return status;
}

}  // namespace

int main() {
  auto world = troupe::comm::JobWorld::of_this_process();
  Status status = world.status();
  if (status.ok()) {
    status = run(**world);
    (*world)->leave(status).IgnoreError();
  }
  if (!status.ok()) std::fprintf(stderr, "hello_ranks: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
