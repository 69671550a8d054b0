// Two actors write one variable without a message between them. Run under the thread sanitizer only; see
// CMakeLists.txt.
#include <cstdio>

#include "runtime/actor/system.h"

namespace {

using namespace troupe::actor;

struct Step {
  int left;
};

int shared_by_mistake = 0;

class Racer final : public Actor {
 public:
  Racer() { on(&Racer::step); }
  void step(Step step) {
    ++shared_by_mistake;
    if (step.left == 0) return stop();
    send(self(), Step{step.left - 1});
  }
};

}  // namespace

int main() {
  System system({.threads = 2});
  auto& a = system.add<Racer>("a");
  auto& b = system.add<Racer>("b");
  system.start();
  a.self().send(Step{20000});
  b.self().send(Step{20000});
  std::printf("%s, %d\n", system.wait().ToString().c_str(), shared_by_mistake);
}
