// Three actors that wait for each other on purpose, to be looked at: each holds the token that it was given until it can pass it on, and each
// edge has one credit. All three begin with a token of their own, so nobody ever can.
//
//   red ==Token==> green ==Token==> blue ==Token==> red
//
//   build/release/examples/deadlock                                      all three in one process
//   troupe launch --nproc 2 -- build/release/examples/deadlock           blue in rank 1
//   troupe inspect waits                                                 in another terminal: names the circle
//
// After some seconds in which nothing has gone on it names the circle by itself: 5, or as many as are given (deadlock 2).
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

// Without pointers, so it travels as it is.
struct Token {
  int passed = 0;
};

class Passer : public Actor {
 public:
  Passer() { tokens.on_credit(&Passer::pass_on); }
  In<Token> in{*this, "in", &Passer::token_came};
  Out<Token> tokens{*this, "tokens"};

 private:
  void started() override { tokens.send(Token{}); }
  void token_came(Delivery<Token> token) {
    held_ = std::move(token);
    pass_on();
  }
  void pass_on() {
    if (!held_.credit) return;
    if (!tokens.ready()) return set_state(troupe::trace::State::kWaitingForCredit, tokens.trace_name());
    tokens.send({held_.message.passed + 1});
    held_ = {};  // the credit goes back: too late, it is never reached
  }
  Delivery<Token> held_;
};

Status run(troupe::comm::JobWorld& world, double stall_after_s) {
  const int ranks = world.place().world;
  if (ranks > 2) return absl::InvalidArgumentError("one process, or two: troupe launch --nproc 2 -- deadlock");
  if (Status status = world.enter({.ranks = ranks}); !status.ok()) return status;

  troupe::actors::JobGraph graph(ranks == 1 ? nullptr : world.transports().front());
  graph.be_inspectable(world.job_id(), world.inspection_key(), std::chrono::nanoseconds(static_cast<std::int64_t>(stall_after_s * 1e9)));
  auto& system = graph.system();
  if (world.leads()) {
    auto& red = system.add<Passer>("red");
    auto& green = system.add<Passer>("green");
    connect(red.tokens, green.in, {.credits = 1});
    if (ranks == 1) {
      auto& blue = system.add<Passer>("blue");
      connect(green.tokens, blue.in, {.credits = 1});
      connect(blue.tokens, red.in, {.credits = 1});
    } else {
      connect(green.tokens, graph.far().in<Token>(Rank(1), "green-blue"), {.credits = 1});
      connect(graph.far().out<Token>(Rank(1), "blue-red", {.credits = 1}), red.in, {.credits = 1});
    }
    std::fprintf(stderr, "three actors wait for each other, until Ctrl-C; see troupe inspect waits\n");
  } else {
    auto& blue = system.add<Passer>("blue");
    connect(graph.far().out<Token>(Rank(0), "green-blue", {.credits = 1}), blue.in, {.credits = 1});
    connect(blue.tokens, graph.far().in<Token>(Rank(0), "blue-red"), {.credits = 1});
  }
  world.watch([&](Rank rank, const Status& cause) { graph.lost(rank, cause); });
  Status status = graph.run();
  world.end_watch();
  return status;
}

}  // namespace

int main(int count, char** words) {
  const double stall_after_s = count > 1 ? std::atof(words[1]) : 5;
  if (!(stall_after_s > 0 && stall_after_s < 1e6)) {
    std::fprintf(stderr, "deadlock: '%s' is no number of seconds\n", words[1]);
    return 2;
  }
  auto world = troupe::comm::JobWorld::of_this_process();
  Status status = world.status();
  if (status.ok()) {
    status = run(**world, stall_after_s);
    (*world)->leave(status).IgnoreError();
  }
  if (!status.ok()) std::fprintf(stderr, "deadlock: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
