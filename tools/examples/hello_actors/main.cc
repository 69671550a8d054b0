// The smallest actor graph: a counter sends numbers to a squarer, which sends squares to a printer. Two edges join them; each has a fixed
// number of credits, so the fast counter can never run ahead of the slow printer by more than those.
//
//   counter ==Number==> squarer ==Number==> printer
#include <cstdio>

#include "runtime/actor/edge.h"
#include "runtime/actor/system.h"

using troupe::actor::Actor;
using troupe::actor::Delivery;
using troupe::actor::In;
using troupe::actor::Out;

namespace {

// A message is any struct that moves without throwing.
struct Number {
  int value = 0;
};

class Counter : public Actor {
 public:
  explicit Counter(int last) : last_(last) { numbers.on_credit(&Counter::send_what_may); }
  Out<Number> numbers{*this, "numbers"};

 private:
  void started() override { send_what_may(); }
  // Called again whenever credits have come back. It never waits: what cannot be sent now is sent then.
  void send_what_may() {
    while (next_ <= last_ && numbers.ready()) numbers.send({next_++});
  }
  const int last_;
  int next_ = 1;
};

class Squarer : public Actor {
 public:
  Squarer() { squares.on_credit(&Squarer::pass_on); }
  In<Number> numbers{*this, "numbers", &Squarer::number_came};
  Out<Number> squares{*this, "squares"};

 private:
  // A delivery holds a credit of its edge: while we keep it, the counter has one less to send with.
  void number_came(Delivery<Number> number) {
    waiting_.push_back(std::move(number));
    pass_on();
  }
  void pass_on() {
    while (!waiting_.empty() && squares.ready()) {
      const int value = waiting_.front().message.value;
      squares.send({value * value});
      waiting_.erase(waiting_.begin());  // the credit goes back here
    }
  }
  std::vector<Delivery<Number>> waiting_;  // never more than the edge's credits
};

class Printer : public Actor {
 public:
  explicit Printer(int count) : left_(count) {}
  In<Number> squares{*this, "squares", &Printer::square_came};

 private:
  void square_came(Delivery<Number> square) {
    std::printf("%d\n", square.message.value);
    if (--left_ == 0) finish_job();  // all actors stop, System::wait returns
  }
  int left_;
};

}  // namespace

int main() {
  constexpr int kCount = 10;
  troupe::actor::System system;
  auto& counter = system.add<Counter>("counter", kCount);
  auto& squarer = system.add<Squarer>("squarer");
  auto& printer = system.add<Printer>("printer", kCount);
  connect(counter.numbers, squarer.numbers, {.credits = 2});
  connect(squarer.squares, printer.squares, {.credits = 1});
  system.start();
  const troupe::Status status = system.wait();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
