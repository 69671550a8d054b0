#include "runtime/actor/sim_world.h"

#include "absl/strings/str_cat.h"
#include "runtime/actor/system_core.h"
#include "runtime/base/rng.h"

namespace troupe::actor {

SimWorld::SimWorld(std::uint64_t seed, int systems, System::Options options) : seed_(seed) {
  for (int i = 0; i < systems; ++i) {
    owned_.push_back(std::make_unique<System>(this->options(options)));
    drive(*owned_.back());
  }
}

System::Options SimWorld::options(System::Options base) const {
  base.deterministic = true;
  base.clock = &clock_;
  return base;
}

SimWorld::~SimWorld() = default;

device::SimStream& SimWorld::add_stream(std::string name, device::SimStream::Cost cost,
                                        device::Buffer scratch) {
  auto& stream = streams_.emplace_back(std::move(name), clock_, std::move(cost), std::move(scratch));
  add(stream);
  return stream;
}

void SimWorld::start() {
  for (auto& system : owned_) system->start();
}

std::uint64_t SimWorld::random() {
  const std::uint64_t n = drawn_++;
  const auto words = philox({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0x51u, 0},
                            {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  return std::uint64_t{words[0]} << 32 | words[1];
}

void SimWorld::note(std::uint64_t what) {
  order_ = (order_ ^ what) * 0x100000001b3u;  // FNV-1a, a word at a time
}

bool SimWorld::step() {
  const std::int64_t now = clock_.now_ns();
  const auto runs = [](const auto& what) { return !what.runs || what.runs(); };
  const auto core_of = [](const Driven& driven) -> detail::SystemCore& { return *driven.system->core_; };
  std::size_t choices = 0;
  std::int64_t next_ns = device::SimRunnable::kNever;
  std::vector<std::size_t> running;  // Systems
  for (std::size_t i = 0; i < systems_.size(); ++i) {
    if (!core_of(systems_[i]).started || !runs(systems_[i])) continue;
    running.push_back(i);
    choices += core_of(systems_[i]).caf->runnable();
  }
  std::vector<device::SimRunnable*> due;
  for (const Added& added : runnables_) {
    const std::int64_t at = runs(added) ? added.runnable->ready_at_ns() : device::SimRunnable::kNever;
    if (at <= now) {
      due.push_back(added.runnable);
    } else {
      next_ns = std::min(next_ns, at);
    }
  }
  choices += due.size();

  if (choices == 0) {  // let time pass
    for (const std::size_t i : running) {
      const std::int64_t in = core_of(systems_[i]).caf->next_timer_in_ns();
      if (in != detail::CafWorld::kNever) next_ns = std::min(next_ns, now + in);
    }
    if (next_ns == device::SimRunnable::kNever) return false;
    clock_.advance(next_ns - now);
    for (const Driven& driven : systems_) {  // also for those that stand still
      if (core_of(driven).started) core_of(driven).caf->advance(next_ns - now);
    }
    note(static_cast<std::uint64_t>(next_ns));
  } else {
    auto choice = static_cast<std::size_t>(random() % choices);
    bool chosen = false;
    for (const std::size_t i : running) {
      auto& caf = *core_of(systems_[i]).caf;
      const std::size_t here = caf.runnable();
      if (choice < here) {
        note(caf.run(choice) << 8 | i);
        chosen = true;
        break;
      }
      choice -= here;
    }
    if (!chosen) {
      due[choice]->step();
      note(choice << 8 | 0xff);
    }
  }
  ++events_;
  for (const auto& check : checks_) check();
  return true;
}

bool SimWorld::has_ended(const System& system) {
  auto& core = *system.core_;
  std::lock_guard lock(core.outcome.mutex);
  return core.started && core.outcome.alive == 0;
}

Status SimWorld::run(std::int64_t max_events, const std::function<bool()>& done) {
  const std::int64_t end = events_ + max_events;
  while (!(done && done()) && events_ < end && step()) {
  }
  for (const Driven& driven : systems_) {
    if (Status status = driven.system->outcome(); !status.ok()) return status;
  }
  if (events_ >= end) {
    return Status(absl::StatusCode::kDeadlineExceeded,
                  absl::StrCat("seed ", seed_, ": not done after ", max_events, " events"));
  }
  return ok();
}

}  // namespace troupe::actor
