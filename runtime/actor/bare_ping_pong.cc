#include "runtime/actor/bare_ping_pong.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "runtime/base/clock.h"

namespace troupe::actor {
namespace {

// Knows its partner from the start, as ours do.
class Player final : public caf::event_based_actor {
 public:
  explicit Player(caf::actor_config& config) : caf::event_based_actor(config) {}
  caf::behavior make_behavior() override {
    return {
        [this](caf::actor& other) { other_ = std::move(other); },
        [this](int left) {
          if (left > 0) send(other_, left - 1);
          if (left <= 1) quit();
        },
    };
  }
  void on_exit() override { other_ = nullptr; }

 private:
  caf::actor other_;
};

}  // namespace

double bare_ping_pong_per_s(int messages, int threads) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  config.set("scheduler.max-throughput", static_cast<std::size_t>(64));
  caf::actor_system system(config);
  auto a = system.spawn<Player>();
  auto b = system.spawn<Player>();
  caf::anon_send(a, b);
  caf::anon_send(b, a);
  const SteadyClock clock;
  const std::int64_t begin = clock.now_ns();
  caf::anon_send(a, messages);
  system.await_all_actors_done();
  return messages / seconds(clock.now_ns() - begin);
}

}  // namespace troupe::actor
