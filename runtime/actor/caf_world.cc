#include <algorithm>
#include <caf/actor_system_config.hpp>
#include <caf/policy/work_sharing.hpp>
#include <caf/scheduler/coordinator.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "runtime/actor/caf_host.h"

namespace troupe::actor::detail {

struct CafWorld::Inside {
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  caf::scheduler::test_coordinator* coordinator = nullptr;  // of the deterministic set-up
};

CafWorld::CafWorld(const System::Options& options) : inside_(std::make_unique<Inside>()) {
  auto& config = inside_->config;
  // CAF's default policy leaves a message waiting behind a busy sender. The value is an atom: a string is
  // silently ignored.
  if (options.deterministic) {
    config.set("scheduler.policy", caf::atom("testing"));
  } else {
    TROUPE_CHECK(options.threads >= 1) << options.threads;
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", static_cast<std::size_t>(options.threads));
  }
  TROUPE_CHECK(options.max_messages_per_turn >= 1) << options.max_messages_per_turn;
  config.set("scheduler.max-throughput", static_cast<std::size_t>(options.max_messages_per_turn));
  inside_->system = std::make_unique<caf::actor_system>(config);
  auto& scheduler = inside_->system->scheduler();
  if (options.deterministic) {
    inside_->coordinator = dynamic_cast<caf::scheduler::test_coordinator*>(&scheduler);
    TROUPE_CHECK(inside_->coordinator != nullptr) << "CAF ignored scheduler.policy";
  } else {
    TROUPE_CHECK(dynamic_cast<caf::scheduler::coordinator<caf::policy::work_sharing>*>(&scheduler) != nullptr)
        << "CAF ignored scheduler.policy";
    TROUPE_CHECK(scheduler.num_workers() == static_cast<std::size_t>(options.threads))
        << scheduler.num_workers();
    TROUPE_CHECK(scheduler.max_throughput() == static_cast<std::size_t>(options.max_messages_per_turn));
  }
}

CafWorld::~CafWorld() = default;

void CafWorld::spawn(Cell& cell) {
  // Lazy: runs at its first message. Hidden: CAF's own count of actors is not used.
  auto handle =
      std::make_shared<caf::actor>(inside_->system->spawn<Host, caf::lazy_init + caf::hidden>(cell));
  cell.host = static_cast<Host*>(caf::actor_cast<caf::abstract_actor*>(*handle));
  cell.keeps_host = std::move(handle);
}

std::size_t CafWorld::runnable() const { return inside_->coordinator->jobs.size(); }

std::uint64_t CafWorld::run(std::size_t which) {
  auto& jobs = inside_->coordinator->jobs;
  TROUPE_CHECK(which < jobs.size());
  const auto at = jobs.begin() + static_cast<std::ptrdiff_t>(which);
  const auto* runs = dynamic_cast<caf::abstract_actor*>(*at);
  const std::uint64_t number = runs != nullptr ? runs->id() : 0;
  std::rotate(jobs.begin(), at, at + 1);  // the others keep their order
  inside_->coordinator->run_once();
  return number;
}

std::int64_t CafWorld::next_timer_in_ns() const {
  const auto& its_clock = inside_->coordinator->clock();
  if (its_clock.schedule().empty()) return kNever;
  const auto due = its_clock.schedule().begin()->first - its_clock.now();
  return std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(due).count());
}

void CafWorld::advance(std::int64_t by_ns) {
  inside_->coordinator->advance_time(std::chrono::nanoseconds(by_ns));
}

void CafWorld::drop_timers() { inside_->coordinator->clock().cancel_all(); }

}  // namespace troupe::actor::detail
