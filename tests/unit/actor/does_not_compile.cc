// Compiled by tests with -DCASE_x; every case but NONE must be refused (CASES A31).
#include "runtime/actor/system.h"

using namespace troupe::actor;

struct Apple {};
struct Pear {};
struct Throws {
  Throws(Throws&&) {}
};

struct Giver : Actor {
  Out<Apple> out{*this, "out"};
};
struct Taker : Actor {
  void take(Delivery<Apple>) {}
  void take_pear(Delivery<Pear>) {}
  In<Apple> in{*this, "in", &Taker::take};
  In<Pear> pears{*this, "pears", &Taker::take_pear};
};

void build(System& system) {
  auto& giver = system.add<Giver>("giver");
  auto& taker = system.add<Taker>("taker");
#if defined(CASE_MISMATCHED_TYPES)
  connect(giver.out, taker.pears);
#elif defined(CASE_NO_MESSAGE)
  taker.self().send(&giver);
#elif defined(CASE_THROWING_MOVE)
  void (*send)(const Ref&, Throws) = [](const Ref& to, Throws message) { to.send(std::move(message)); };
  (void)send;
#endif
  connect(giver.out, taker.in);
}
