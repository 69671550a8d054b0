#include "runtime/actor/bare_ping_pong.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "runtime/base/clock.h"

namespace troupe::actor {
namespace {

class Player final : public caf::event_based_actor {
 public:
  Player(caf::actor_config& config, int balls, int hops) : caf::event_based_actor(config), balls_(balls), hops_(hops) {}

  caf::behavior make_behavior() override {
    return {
        [this](caf::actor& other) { other_ = std::move(other); },
        [this](caf::put_atom) {
          for (int i = 0; i < balls_; ++i) send(other_, hops_);
        },
        [this](int left) {
          if (left > 0) {
            send(other_, left - 1);
          } else if (++finished_ == balls_) {
            send(other_, caf::ok_atom_v);
            quit();
          }
        },
        [this](caf::ok_atom) { quit(); },
    };
  }
  void on_exit() override { other_ = nullptr; }

 private:
  const int balls_, hops_;
  int finished_ = 0;
  caf::actor other_;
};

}  // namespace

double bare_ping_pong_per_s(int balls, int hops, int threads) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  config.set("scheduler.max-throughput", static_cast<std::size_t>(64));
  caf::actor_system system(config);
  auto a = system.spawn<Player>(balls, hops);
  auto b = system.spawn<Player>(balls, hops);
  caf::anon_send(a, b);
  caf::anon_send(b, a);
  const SteadyClock clock;
  const std::int64_t begin = clock.now_ns();
  caf::anon_send(a, caf::put_atom_v);
  system.await_all_actors_done();
  return static_cast<double>(balls) * hops / seconds(clock.now_ns() - begin);
}

}  // namespace troupe::actor
