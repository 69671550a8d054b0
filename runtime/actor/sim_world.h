// The deterministic world: real actors of one or several Systems, simulated streams, one virtual clock, one
// seed.
//
// At each event the seed chooses who goes next among the actors with messages and the streams with something
// due; an actor then handles one message, a stream runs one entry. When nobody can go, time moves to the next
// timer or end of work. The same seed gives the same interleaving, so a failure is reproduced by its number.
// No threads, no clock of the machine.
//
// Several Systems, each with its streams, stand for the processes of one job: what belongs to a process that is
// stopped or dead stands still, while time goes on for the others.
//
// Threads: one. Owns: its Systems and streams, not those it only drives. Invariants:
// SimWorld.TheSameSeedIsTheSameOrder, SimWorld.AnotherSeedIsAnotherOrder.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor/system.h"
#include "runtime/base/clock.h"
#include "runtime/device/sim_stream.h"

namespace troupe::actor {

class SimWorld {
 public:
  // `options` of each System; what concerns threads and clocks is set here.
  explicit SimWorld(std::uint64_t seed, int systems = 1, System::Options options = {});
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // Asked before each step: whether the process runs to which something belongs. Empty: always.
  using Runs = std::function<bool()>;

  // A System that somebody else makes with options() and starts runs here too; it is there until the last
  // step.
  System::Options options(System::Options base = {}) const;
  void drive(System& system, Runs runs = {}) { systems_.push_back({&system, std::move(runs)}); }

  System& system(int index = 0) { return *systems_.at(static_cast<std::size_t>(index)).system; }
  int systems() const { return static_cast<int>(systems_.size()); }
  device::SimStream& add_stream(std::string name, device::SimStream::Cost cost = {},
                                device::Buffer scratch = {});
  // Outlives the world's last step; a simulated transport, say.
  void add(device::SimRunnable& runnable, Runs runs = {}) {
    runnables_.push_back({&runnable, std::move(runs)});
  }
  // Called after every event; checks invariants.
  void after_each_event(std::function<void()> check) { checks_.push_back(std::move(check)); }
  void start();  // of its own Systems

  // One event. False when nothing can happen any more: no message, no work due, no timer.
  bool step();
  // Until nothing can happen, or `done` holds, or `max_events` have passed. What System::outcome says of the
  // first System that failed; kDeadlineExceeded if it ran out of events (the world is then still whole).
  Status run(std::int64_t max_events = 10'000'000, const std::function<bool()>& done = {});
  // Whether all actors have ended: what System::wait waits for.
  static bool has_ended(const System& system);
  // run() to the end, for who asks System::outcome later.
  void settle() { (void)run(); }

  const VirtualClock& clock() const { return clock_; }
  std::uint64_t seed() const { return seed_; }
  std::int64_t events() const { return events_; }
  // A fingerprint of who went when, in what order and at which times.
  std::uint64_t order() const { return order_; }

 private:
  struct Driven {
    System* system;
    Runs runs;
  };
  struct Added {
    device::SimRunnable* runnable;
    Runs runs;
  };
  std::uint64_t random();
  void note(std::uint64_t what);

  const std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  VirtualClock clock_;
  std::deque<device::SimStream> streams_;  // before the Systems: their actors hold streams
  std::vector<std::unique_ptr<System>> owned_;
  std::vector<Driven> systems_;  // owned_ and driven
  std::vector<Added> runnables_;
  std::vector<std::function<void()>> checks_;
  std::int64_t events_ = 0;
  std::uint64_t order_ = 0xcbf29ce484222325u;
};

}  // namespace troupe::actor
